"""Frames to topics, MongoDB and the embedded store; repeating a batch changes nothing."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from chordmq_spark.settings import PipelineSettings
from chordmq_spark.transforms.analytics import as_messages
from pyspark_chordmq.options import read_options
from pyspark_chordmq.writer import BatchWriter

DATABASE, READINGS, LATEST = "chordmq", "readings", "latest"
ROWS_PER_WRITE = 5_000
WRITTEN = "written long"
COLUMNS = (
    "messageId", "deviceId", "metric", "value", "unit", "time", "received",
    "sourceTopic", "sourcePartition", "sourceOffset",
)  # fmt: skip
"""The columns of a stored reading, in the order of the table."""

TABLES = """
CREATE TABLE IF NOT EXISTS readings (
    messageId TEXT PRIMARY KEY, deviceId TEXT NOT NULL, metric TEXT NOT NULL, value REAL NOT NULL,
    unit TEXT, time TEXT NOT NULL, received TEXT NOT NULL,
    sourceTopic TEXT NOT NULL, sourcePartition INTEGER NOT NULL, sourceOffset INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS readings_of_device ON readings (deviceId, metric, time);
CREATE VIEW IF NOT EXISTS latest AS
    SELECT deviceId, metric, value, unit, max(time) AS time FROM readings GROUP BY deviceId, metric;
"""


def to_topics(frame: DataFrame, settings: PipelineSettings, query: str, batch: int) -> None:
    """Write a batch of messages to their topics, once however often it is called.

    By the writer of `format("chordmq")`, but not by `save`: to plan it, Spark starts a Python
    twice for each batch, which takes longer than to write a few alerts.
    """
    told = settings.connection() | {"query": query, "batchId": str(batch)}
    writer = BatchWriter(read_options(told))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _written(writer.write(batches).rows)

    frame.mapInArrow(write, WRITTEN).collect()


def publish(
    frame: DataFrame, batch: int, *, name: str, query: str, settings: PipelineSettings
) -> None:
    """Write the rows of a batch as messages under a name of the system."""
    to_topics(as_messages(frame, name, settings.root), settings, query, batch)


def to_store(readings: DataFrame, settings: PipelineSettings) -> None:
    """Write readings to MongoDB if there is one, else to the embedded store; by message id."""
    rows = readings.select(*COLUMNS)
    if settings.mongodb:
        to_mongodb(rows, settings.mongodb)
    else:
        to_sqlite(rows, settings.directory / "readings.sqlite")


def to_sqlite(readings: DataFrame, path: Path) -> None:
    """Add the readings that a file does not have yet, in one transaction."""
    path.parent.mkdir(parents=True, exist_ok=True)
    marks = ", ".join("?" * len(COLUMNS))
    connection = sqlite3.connect(path)
    try:
        connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {TABLES}")
        with connection:
            for batch in readings.toArrow().to_batches(ROWS_PER_WRITE):
                connection.executemany(
                    f"INSERT OR IGNORE INTO readings VALUES ({marks})",  # noqa: S608  constants
                    _plain(batch),
                )
    finally:
        connection.close()


def _plain(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    columns = []
    for name in COLUMNS:
        array = batch.column(name)
        if pa.types.is_timestamp(array.type):
            array = pa.compute.strftime(array, format="%Y-%m-%dT%H:%M:%SZ")
        columns.append(array.to_pylist())
    return zip(*columns, strict=True)


def to_mongodb(readings: DataFrame, address: str) -> None:
    """Insert readings under their message ids, and keep the newest of each device and metric."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from chordmq_spark.mongodb import write_readings

        yield _written(write_readings(address, batches))

    readings.mapInArrow(write, WRITTEN).collect()


def _written(rows: int) -> pa.RecordBatch:
    """Return what a task says of its work: Spark wants rows from it."""
    return pa.RecordBatch.from_pydict({"written": pa.array([rows], pa.int64())})

"""Tables: device messages as typed Iceberg tables, a row for each reading and one for each hour.

Each table knows how far it is, so that a batch that is repeated adds nothing: readings by their
offsets in the log, hours by the snapshot of the readings that they were made of.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from chordmq.archive.archiver import flush
from chordmq.archive.typed import HOURLY, READINGS, TypedTable, TypedTables, files_below
from chordmq.clock import SystemClock
from chordmq_spark.jobs.start import started
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sources import device_messages
from chordmq_spark.transforms.tables import PART, beyond, day_of, hour_of, hourly
from chordmq_spark.transforms.telemetry import clean, deduplicated, good

NAME = "tables"
SMALL_BYTES, SMALL_FILES_MAX = 32 * 1024 * 1024, 32
"""So many files of a day that are smaller than this are joined to one."""


def start(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query; what the log has dropped comes from the archive."""
    readings = device_messages(spark, settings, f"pipeline-{NAME}", archive=settings.archive)
    readings = readings.transform(clean, settings.models).transform(good).transform(deduplicated)
    write_ = partial(write, settings=settings)
    return started(readings, NAME, settings, write_, trigger=settings.tables_trigger)


def write(readings: DataFrame, batch: int, *, settings: PipelineSettings) -> None:
    """Add one batch; Spark calls it again with the same rows if anything fails."""
    spark = readings.sparkSession
    readings.persist()
    try:
        with TypedTables(settings.archive) as tables:
            silver, gold = tables.readings(settings.root), tables.hourly(settings.root)
            add_readings(readings, silver)
            join_small(spark, silver)
            sum_up(spark, silver, gold)
            now_ms = SystemClock().now_ms()
            for table in (silver, gold):
                table.sweep(now_ms / 1000)
                table.forget(now_ms)
    finally:
        readings.unpersist()


def add_readings(readings: DataFrame, silver: TypedTable) -> None:
    """Add the readings that the table has not."""
    fresh = readings.transform(beyond, silver.ends).select(*READINGS.names)
    last = fresh.groupBy("sourcePartition").agg(F.max("sourceOffset").alias("last")).collect()
    ends = {row.sourcePartition: row.last + 1 for row in last}
    if ends:
        silver.add(written(fresh, silver.folder, day_of("time")), ends)


def join_small(spark: SparkSession, silver: TypedTable) -> None:
    """Join the small files of a day when there are many."""
    days: dict[str, list[str]] = {}
    for path in silver.paths():
        if Path(path).stat().st_size < SMALL_BYTES:
            days.setdefault(Path(path).parent.name, []).append(path)
    for paths in days.values():
        if len(paths) > SMALL_FILES_MAX:
            rows = spark.read.parquet(*paths).select(*READINGS.names)
            silver.replace(paths, written(rows, silver.folder, day_of("time")))


def sum_up(spark: SparkSession, silver: TypedTable, gold: TypedTable) -> None:
    """Sum up the hours anew that have got readings since the last time."""
    added = silver.added(gold.source)
    if not added:
        return
    hour = F.date_trunc("hour", "time")
    rows = spark.read.parquet(*added).select(hour_of("time").alias(PART), hour.cast("long"))
    hours = {row[0]: datetime.fromtimestamp(row[1], UTC) for row in rows.distinct().collect()}
    first, last = min(hours.values()), max(hours.values()) + timedelta(hours=1)
    between = f"time >= '{first.isoformat()}' AND time < '{last.isoformat()}'"
    readings = spark.read.parquet(*silver.paths(between)).where(hour_of("time").isin([*hours]))
    old = [path for path in gold.paths() if Path(path).parent.name.partition("=")[2] in hours]
    new = written(readings.transform(hourly).select(*HOURLY.names), gold.folder, hour_of("start"))
    gold.replace(old, new, source=silver.snapshot)


def written(rows: DataFrame, folder: Path, part: Column) -> list[Path]:
    """Write rows as Parquet, a file for each part, below a new folder; return what the disk has."""
    batch = folder / uuid4().hex
    frame = rows.withColumn(PART, part).repartition(PART)
    frame = frame.sortWithinPartitions(PART, "deviceId", "metric")
    frame.write.partitionBy(PART).option("compression", "zstd").parquet(str(batch))
    files = files_below(batch)
    for path in files:
        flush(path)
    for parent in {path.parent for path in files} | {batch}:
        flush(parent)
    return files

"""Writes readings to MongoDB from Spark's workers: by deterministic ids, never by counting."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pymongo import InsertOne, MongoClient, UpdateOne
from pymongo.errors import BulkWriteError

DATABASE, READINGS, LATEST = "chordmq", "readings", "latest"
ROWS_PER_WRITE = 5_000
DUPLICATE_KEY = 11000


def write_readings(address: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task; yield how many there were."""
    written = 0
    client: MongoClient[dict[str, Any]] = MongoClient(address, tz_aware=True, appname="chordmq")
    with client:
        database = client.get_default_database(DATABASE)
        for batch in batches:
            for begin in range(0, batch.num_rows, ROWS_PER_WRITE):
                rows = batch.slice(begin, ROWS_PER_WRITE).to_pylist()
                _insert(database[READINGS], rows)
                _keep_newest(database[LATEST], rows)
                written += len(rows)
    yield pa.RecordBatch.from_pydict({"written": pa.array([written], pa.int64())})


def _insert(collection: Any, rows: list[dict[str, Any]]) -> None:
    """Insert what is not there; a batch that comes again finds all of its rows."""
    inserts = [InsertOne({"_id": row["messageId"], **row}) for row in rows]
    try:
        collection.bulk_write(inserts, ordered=False)
    except BulkWriteError as error:
        others = [one for one in error.details["writeErrors"] if one["code"] != DUPLICATE_KEY]
        if others:
            raise


def _keep_newest(collection: Any, rows: list[dict[str, Any]]) -> None:
    """Store the newest reading of each device and metric, unless a newer one is there."""
    newest: dict[str, dict[str, Any]] = {}
    for row in rows:
        key = f"{row['deviceId']}/{row['metric']}"
        if key not in newest or newest[key]["time"] <= row["time"]:
            newest[key] = row
    updates = []
    for key, row in newest.items():
        fields = {name: row[name] for name in ("deviceId", "metric", "value", "unit", "time")}
        is_newer = {"$gte": [fields["time"], {"$ifNull": ["$time", fields["time"]]}]}
        change = {
            name: {"$cond": [is_newer, {"$literal": value}, f"${name}"]}
            for name, value in fields.items()
        }
        updates.append(UpdateOne({"_id": key}, [{"$set": change}], upsert=True))
    collection.bulk_write(updates, ordered=False)

"""Writes readings to MongoDB from Spark's workers: by deterministic ids, never by counting."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pymongo import MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

DATABASE, READINGS, LATEST = "chordmq", "readings", "latest"
ROWS_PER_WRITE = 5_000
DUPLICATE_KEY = 11000

Row = dict[str, Any]


def write_readings(address: str, batches: Iterator[pa.RecordBatch]) -> int:
    """Write the rows of one task; return how many there were.

    MongoDB answers when its journal has them: Spark does not read them again after that.
    """
    written = 0
    newest: dict[str, Row] = {}
    client: MongoClient[Row] = MongoClient(address, tz_aware=True, appname="chordmq", journal=True)
    with client:
        database = client.get_default_database(DATABASE)
        for batch in batches:
            for begin in range(0, batch.num_rows, ROWS_PER_WRITE):
                rows = batch.slice(begin, ROWS_PER_WRITE).to_pylist()
                for row in rows:
                    row["_id"] = row["messageId"]
                _insert(database[READINGS], rows)
                _remember(newest, rows)
                written += len(rows)
        _keep_newest(database[LATEST], newest)
    return written


def _insert(collection: Collection[Row], rows: list[Row]) -> None:
    """Insert what is not there; a batch that comes again finds all of its rows."""
    try:
        collection.insert_many(rows, ordered=False)
    except BulkWriteError as error:
        others = [one for one in error.details["writeErrors"] if one["code"] != DUPLICATE_KEY]
        if others:
            raise


def _remember(newest: dict[str, Row], rows: list[Row]) -> None:
    """Keep the newest row of each device and metric."""
    for row in rows:
        key = f"{row['deviceId']}/{row['metric']}"
        if key not in newest or newest[key]["time"] <= row["time"]:
            newest[key] = row


def _keep_newest(collection: Collection[Row], newest: dict[str, Row]) -> None:
    """Store the newest reading of each device and metric, unless a newer one is there."""
    updates = []
    for key, row in newest.items():
        fields = {name: row[name] for name in ("deviceId", "metric", "value", "unit", "time")}
        is_newer = {"$gte": [fields["time"], {"$ifNull": ["$time", fields["time"]]}]}
        change = {
            name: {"$cond": [is_newer, {"$literal": value}, f"${name}"]}
            for name, value in fields.items()
        }
        updates.append(UpdateOne({"_id": key}, [{"$set": change}], upsert=True))
    if updates:
        collection.bulk_write(updates, ordered=False)

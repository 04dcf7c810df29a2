"""Readings in a real MongoDB: by their ids, however often a batch is written."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from chordmq_spark.mongodb import write_readings
from tests.mongodb import running_mongod

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a server that the tests of this module share."""
    with running_mongod(tmp_path_factory.mktemp("mongodb")) as address:
        yield address


@pytest.fixture
def database(address: str) -> Iterator[Database[dict[str, Any]]]:
    """Give the pipeline's database, empty."""
    client: MongoClient[dict[str, Any]] = MongoClient(address, tz_aware=True)
    with client:
        client.drop_database("chordmq")
        yield client.get_default_database()


def batch(*readings: tuple[str, str, int]) -> pa.RecordBatch:
    """Return readings of an id, a device and a second, which is the value too."""
    rows = [
        {
            "messageId": message, "deviceId": device, "metric": "temperature",
            "value": float(second), "unit": "C", "time": START + timedelta(seconds=second),
        }
        for message, device, second in readings
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows)


def written(address: str, *batches: pa.RecordBatch) -> int:
    return write_readings(address, iter(batches))


def test_a_batch_that_is_written_again_changes_nothing(
    address: str, database: Database[dict[str, Any]]
) -> None:
    """P3, P6: upserts by message id, so that Spark may repeat what it is not sure of."""
    first, second = batch(("m1", "d1", 1), ("m2", "d2", 2)), batch(("m3", "d1", 3))
    assert written(address, first, second) == 3
    before = list(database["readings"].find().sort("_id")), list(database["latest"].find())
    assert written(address, first) == 2, "they are written, and are there"
    after = list(database["readings"].find().sort("_id")), list(database["latest"].find())
    assert [row["_id"] for row in after[0]] == ["m1", "m2", "m3"]
    assert after == before


def test_the_newest_of_each_device_stays_whatever_comes_late(
    address: str, database: Database[dict[str, Any]]
) -> None:
    """P3: compared by time, never by order of arrival."""
    written(address, batch(("m1", "d1", 50), ("m2", "d1", 20)), batch(("m3", "d1", 40)))
    written(address, batch(("m4", "d1", 30), ("m5", "d2", 1)))
    latest = {row["_id"]: row["value"] for row in database["latest"].find()}
    assert latest == {"d1/temperature": 50.0, "d2/temperature": 1.0}


def test_no_rows_are_no_work(address: str, database: Database[dict[str, Any]]) -> None:
    assert written(address) == 0
    assert database.list_collection_names() == []

"""The order of ids is the server's own."""

import random
from datetime import UTC, datetime
from typing import Any

from bson import Binary, Decimal128, Int64, ObjectId, Timestamp, decode, encode

from chordmq.cdc.mongodb.order import order
from chordmq.cdc.mongodb.server import CODEC
from tests.replica_set import RunningReplicaSet

IDS: list[Any] = [
    1, 2, Int64(2**40), 1.5, -3, Decimal128("1.75"), "a", "b", "ä", "Z", "", {"a": 1}, {"a": 2},
    {"b": 0}, {"a": "x"}, {}, b"\x01", b"\x00\x00", Binary(b"\x00", 5), ObjectId("0" * 24),
    ObjectId("f" * 24), True, False, datetime(2024, 1, 1, tzinfo=UTC),
    datetime(1960, 1, 1, tzinfo=UTC), Timestamp(1, 2), Timestamp(1, 1), None,
]  # fmt: skip


def test_ids_are_ordered_as_the_server_orders_them(mongodb: RunningReplicaSet, name: str) -> None:
    """A snapshot that goes on after an id must know which changes lie beyond it."""
    with mongodb.client() as client:
        collection = client[name].get_collection("ids", codec_options=CODEC)
        shuffled = random.Random(1).sample(IDS, len(IDS))
        collection.insert_many([{"_id": one} for one in shuffled])
        theirs = [one["_id"] for one in collection.find().sort("_id", 1)]
    ours = [decode(encode({"v": one}), CODEC)["v"] for one in shuffled]
    assert sorted(ours, key=order) == theirs

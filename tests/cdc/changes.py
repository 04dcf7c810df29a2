"""The changes that our sources and Debezium are both shown: all kinds, with values of all types."""

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from tests.replica_set import RunningReplicaSet

GOLDEN = Path(__file__).parent.parent / "golden" / "debezium"
POSTGRES_TABLES = (GOLDEN / "tables.sql").read_text()
POSTGRES = (GOLDEN / "changes.sql").read_text()
POSTGRES_ROWS = 4
MONGO_DATABASE = "shop"
MONGO_DOCUMENTS = 2

Event = dict[str, Any]


def has_postgres_snapshot(events: list[Event]) -> bool:
    """Return whether all rows that were there before are told."""
    return sum(1 for one in events if one["value"] and one["value"]["op"] == "r") >= POSTGRES_ROWS


def has_postgres_end(events: list[Event]) -> bool:
    """Return whether the last change is told."""
    return any(one["key"] == {"a": 11, "b": "end"} for one in events)


def has_mongodb_snapshot(events: list[Event]) -> bool:
    """Return whether all documents that were there before are told."""
    return sum(1 for one in events if one["value"] and one["value"]["op"] == "r") >= MONGO_DOCUMENTS


def has_mongodb_end(events: list[Event]) -> bool:
    """Return whether the last change is told."""
    return any(one["key"] == {"id": '"end"'} for one in events)


def prepare_mongodb(server: RunningReplicaSet) -> None:
    """Make the collections, and what a snapshot finds in them."""
    with server.client() as client:
        shop = client[MONGO_DATABASE]
        shop.create_collection("items", changeStreamPreAndPostImages={"enabled": True})
        shop.items.insert_many([{"_id": 1, "a": "x"}, {"_id": 2, "a": "y"}])


def change_mongodb(server: RunningReplicaSet) -> None:
    """Change documents in all ways."""
    with server.client() as client:
        shop = client[MONGO_DATABASE]
        shop.items.insert_one(EVERYTHING)
        for key in KEYS:
            shop.items.insert_one({"_id": key, "v": 1})
        shop.items.update_one({"_id": "text"}, {"$set": {"v": 2, "w": {"z": [1, 2, 3]}}})
        shop.items.update_one({"_id": "text"}, {"$unset": {"v": ""}, "$push": {"w.z": 4}})
        shop.items.replace_one({"_id": "text"}, {"n": 1})
        shop.items.delete_one({"_id": "text"})
        shop.items.insert_one({"_id": "list", "z": list(range(20))})
        shop.items.update_one({"_id": "list"}, [{"$set": {"z": {"$slice": ["$z", 5]}}}])
        shop.plain.insert_one({"_id": "p", "v": 1})
        shop.plain.update_one({"_id": "p"}, {"$set": {"v": 2}})
        shop.plain.delete_one({"_id": "p"})
        with client.start_session() as session, session.start_transaction():
            shop.items.insert_one({"_id": "first"}, session=session)
            shop.plain.insert_one({"_id": "second"}, session=session)
        shop.items.insert_one({"_id": "end"})


KEYS: list[Any] = [
    "text", Int64(2**40), {"a": 1, "b": "x"}, 5, 1.5, datetime(2024, 1, 1, tzinfo=UTC),
    Binary.from_uuid(uuid.UUID(int=1)),
]  # fmt: skip
EVERYTHING: dict[str, Any] = {
    "_id": ObjectId("65e05a100000000000000001"),
    "int": 1,
    "long": Int64(2**40),
    "float": 1.5,
    "whole": 2.0,
    "text": 'hé"',
    "bytes": b"\x00\xff",
    "date": datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC),
    "null": None,
    "truth": True,
    "decimal": Decimal128("1.50"),
    "list": [1, "a", {"x": Int64(1)}],
    "document": {"p": {"q": 1}},
    "regex": Regex("^a", "i"),
    "timestamp": Timestamp(5, 6),
    "uuid": Binary.from_uuid(uuid.UUID(int=1)),
    "code": Code("x"),
    "scoped": Code("x", {"a": 1}),
    "least": MinKey(),
    "most": MaxKey(),
    "large": 1e300,
    "small": 1e-7,
    "early": datetime(1960, 1, 1, tzinfo=UTC),
    "reference": DBRef("c", 1),
    "five": Binary(b"x", 5),
}

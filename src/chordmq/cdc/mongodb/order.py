"""The order of ids in MongoDB, over all types that an id can have (pure)."""

from typing import Any

from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS

RANKS: dict[type, int] = {
    MinKey: 0,
    type(None): 1,
    int: 2,
    Int64: 2,
    float: 2,
    Decimal128: 2,
    str: 3,
    dict: 4,
    list: 5,
    bytes: 6,
    Binary: 6,
    ObjectId: 7,
    bool: 8,
    DatetimeMS: 9,
    Timestamp: 10,
    MaxKey: 12,
}


def order(value: Any) -> tuple[Any, ...]:
    """Return something that compares as MongoDB compares values: by type, and then by value."""
    rank = RANKS.get(type(value), 11)
    return (rank, _within(value))


def _within(value: Any) -> Any:
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return [
            (RANKS.get(type(one), 11), name.encode(), order(one)) for name, one in value.items()
        ]
    if isinstance(value, list):
        return [order(one) for one in value]
    if isinstance(value, bytes):
        return (len(value), getattr(value, "subtype", 0), bytes(value))
    if isinstance(value, ObjectId):
        return value.binary
    if isinstance(value, Timestamp):
        return (value.time, value.inc)
    if isinstance(value, int | float | DatetimeMS):
        return int(value) if isinstance(value, DatetimeMS) else value
    return ()

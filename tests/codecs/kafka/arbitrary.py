"""Arbitrary Kafka messages of any class and version, for the tests of the codec."""

from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import Any

from hypothesis import strategies as st

from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.wire import NO_UUID, Field, fields_at

ITEMS_MAX = 3
LONG_TEXTS = ["x" * 126, "x" * 127, "é" * 64, "x" * 300]
"""Around the place where a compact length grows to two bytes."""

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.just(NO_UUID) | st.binary(min_size=16, max_size=16),
    "string": st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(LONG_TEXTS),
    "bytes": st.binary(max_size=6) | st.sampled_from([bytes(126), bytes(127), bytes(200)]),
    "records": st.binary(max_size=6) | st.sampled_from([bytes(126), bytes(127), bytes(70_000)]),
}


def message_classes() -> list[type[Any]]:
    """Return the request and the response class of every API."""
    return [
        getattr(import_module(f"chordmq.codecs.kafka.messages.{api.module}"), api.name + side)
        for api in APIS.values()
        for side in ("Request", "Response")
    ]


def every_version() -> list[tuple[type[Any], int]]:
    """Return all pairs of message class and version."""
    return [(cls, version) for cls in message_classes() for version in cls.versions]


def label(pair: tuple[type[Any], int]) -> str:
    """Return a test's name for a pair."""
    return f"{pair[0].__name__}-v{pair[1]}"


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for a message with arbitrary values in the fields of this version."""
    key = (cls, version)
    if key not in _strategies:
        _strategies[key] = _build(cls, version)
    return _strategies[key]


_strategies: dict[tuple[type[Any], int], st.SearchStrategy[Any]] = {}


def _build(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    present = {
        item.name: _values(item, version) for item in fields_at(cls, version) if item.is_present
    }
    return st.builds(cls, **present)


def _values(item: Field, version: int) -> st.SearchStrategy[Any]:
    element = item.kind.removeprefix("[]")
    values = NUMBERS[element] if item.struct is None else messages(item.struct, version)
    if item.kind.startswith("[]"):
        values = st.lists(values, max_size=ITEMS_MAX)
    return st.none() | values if item.is_nullable else values


def sample(cls: type[Any], version: int, first: int = 1) -> Any:
    """Return a message in which every field has a value of its own, counted from `first`."""
    return _sample(cls, version, count(first))


def _sample(cls: type[Any], version: int, numbers: Iterator[int]) -> Any:
    present = {
        item.name: _sample_value(item, version, numbers)
        for item in fields_at(cls, version)
        if item.is_present
    }
    return cls(**present)


def _sample_value(item: Field, version: int, numbers: Iterator[int]) -> Any:
    if item.kind.startswith("[]"):
        return [_sample_value(item._replace(kind=item.kind[2:]), version, numbers)]
    if item.struct is not None:
        return _sample(item.struct, version, numbers)
    number = next(numbers) % 100
    match item.kind:
        case "string":
            return f"text-{number}"
        case "bytes" | "records":
            return f"bytes-{number}".encode()
        case "uuid":
            return bytes([number]) * 16
        case "bool":
            return not item.default
        case "float64":
            return number + 0.5
    return number

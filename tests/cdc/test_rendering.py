"""Events, their keys and tombstones, and the topics they go to."""

import json
from typing import Any

import pytest

from chordmq.cdc.change import CREATE, DELETE, TRUNCATE, Change, Place, Spoiled
from chordmq.cdc.rendering import CannotTell, Rendered, Rendering
from chordmq.cdc.settings import Source, read_plan
from chordmq.iot import envelope
from chordmq.records.record import NewRecord

ORDERS = Place("public", "orders")
NOW_NS = 1_700_000_000_123_456_789


def source(**more: Any) -> Source:
    settings = {"name": "shop", "kind": "postgresql", "address": "x"} | more
    return read_plan({"sources": [settings]}).sources[0]


def change(op: str = CREATE, after: bytes = b'{"id":1}', time_us: int = 1_000) -> Change:
    return Change(op, ORDERS, b'{"id":1}', None, after, b'{"lsn":5}', time_us, "5-1")


def told(rendering: Rendering, *changes: Change | Spoiled) -> list[tuple[str, NewRecord]]:
    """Return the records of changes, each with its topic."""
    return placed(rendering.records(changes, NOW_NS))


def placed(rendered: Rendered) -> list[tuple[str, NewRecord]]:
    found = [(topic, one) for topic, records in rendered.by_topic.items() for one in records]
    assert len(rendered) == len(found)
    assert rendered.size == sum(len(one.value or b"") for _, one in found)
    return found


def test_an_event_goes_to_the_topic_of_its_table() -> None:
    ((topic, record),) = told(Rendering(source()), change())
    assert topic == "shop.public.orders"
    assert record.key == b'{"id":1}'
    event = json.loads(record.value or b"")
    assert (event["op"], event["after"], event["source"]["lsn"]) == ("c", {"id": 1}, 5)
    assert event["ts_ms"] == NOW_NS // 1_000_000


def test_a_delete_is_followed_by_a_tombstone_unless_none_are_wanted() -> None:
    (_, event), (_, tombstone) = told(Rendering(source()), change(DELETE))
    assert tombstone.key == event.key
    assert tombstone.value is None
    assert len(told(Rendering(source(tombstones=False)), change(DELETE))) == 1


def test_kinds_of_changes_can_be_skipped() -> None:
    assert told(Rendering(source()), change(TRUNCATE)) == []
    assert len(told(Rendering(source(skip=[])), change(TRUNCATE))) == 1


def test_an_envelope_has_the_id_and_the_time_of_the_change() -> None:
    ((_, record),) = told(Rendering(source(format="envelope")), change())
    found = envelope.read(record.value or b"")
    assert found.metadata.message_id == "5-1"
    assert found.metadata.topic == "shop/public/orders"
    assert json.loads(found.content)["op"] == "c"


def test_what_is_too_large_or_of_no_time_goes_to_the_dead_letters() -> None:
    rendering = Rendering(source(topics={"message_bytes_max": 1000}, format="envelope"))
    large, timeless = told(rendering, change(after=b'"%b"' % (b"y" * 1000)), change(time_us=10**18))
    assert large[0] == timeless[0] == "shop.dlq"
    assert large[1].key == timeless[1].key == b'{"id":1}'
    assert b"message_bytes_max" in dict(large[1].headers)["chordmq.error"]  # type: ignore[operator]
    assert rendering.spoiled == 2


def test_a_spoiled_change_can_be_skipped_or_stop_the_source() -> None:
    spoiled = Spoiled(ORDERS, "5-1", "no reason")
    assert told(Rendering(source(on_error="skip")), spoiled) == []
    with pytest.raises(CannotTell, match="no reason"):
        told(Rendering(source(on_error="fail")), spoiled)


def test_a_heartbeat_looks_like_one_of_debezium() -> None:
    ((topic, record),) = placed(Rendering(source()).heartbeat(5))
    assert topic == "__debezium-heartbeat.shop"
    assert (record.key, record.value) == (b'{"serverName":"shop"}', b'{"ts_ms":5}')

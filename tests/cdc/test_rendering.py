"""Events, their keys and tombstones, and the topics they go to."""

import json
from typing import Any

import pytest

from chordmq.cdc.change import CREATE, DELETE, TRUNCATE, Change, Place, Spoiled
from chordmq.cdc.rendering import CannotTell, Rendering
from chordmq.cdc.settings import Source, read_plan
from chordmq.iot import envelope

ORDERS = Place("public", "orders")
NOW_NS = 1_700_000_000_123_456_789


def source(**more: Any) -> Source:
    settings = {"name": "shop", "kind": "postgresql", "address": "x"} | more
    return read_plan({"sources": [settings]}).sources[0]


def change(op: str = CREATE, after: Any = None) -> Change:
    told = {"ts_ms": 1, "lsn": 5}
    return Change(op, ORDERS, {"id": 1}, None, after or {"id": 1}, told, 1_000, "5-1")


def test_an_event_goes_to_the_topic_of_its_table() -> None:
    (placed,) = Rendering(source()).records([change()], NOW_NS)
    assert placed.topic == "shop.public.orders"
    assert placed.record.key == b'{"id":1}'
    event = json.loads(placed.record.value or b"")
    assert (event["op"], event["after"], event["source"]["lsn"]) == ("c", {"id": 1}, 5)
    assert event["ts_ms"] == NOW_NS // 1_000_000


def test_a_delete_is_followed_by_a_tombstone_unless_none_are_wanted() -> None:
    event, tombstone = Rendering(source()).records([change(DELETE)], NOW_NS)
    assert tombstone.record.key == event.record.key
    assert tombstone.record.value is None
    assert len(Rendering(source(tombstones=False)).records([change(DELETE)], NOW_NS)) == 1


def test_kinds_of_changes_can_be_skipped() -> None:
    assert Rendering(source()).records([change(TRUNCATE)], NOW_NS) == []
    assert len(Rendering(source(skip=[])).records([change(TRUNCATE)], NOW_NS)) == 1


def test_an_envelope_has_the_id_and_the_time_of_the_change() -> None:
    (placed,) = Rendering(source(format="envelope")).records([change()], NOW_NS)
    found = envelope.read(placed.record.value or b"")
    assert found.metadata.message_id == "5-1"
    assert found.metadata.topic == "shop/public/orders"
    assert json.loads(found.content)["op"] == "c"


def test_what_is_too_large_or_no_json_goes_to_the_dead_letters() -> None:
    rendering = Rendering(source(topics={"message_bytes_max": 1000}))
    large, strange = rendering.records(
        [change(after={"x": "y" * 1000}), change(after={"x": object()})], NOW_NS
    )
    assert large.topic == strange.topic == "shop.dlq"
    assert large.record.key == b'{"id":1}'
    assert b"message_bytes_max" in dict(large.record.headers)["chordmq.error"]  # type: ignore[operator]
    assert rendering.spoiled == 2


def test_a_spoiled_change_can_be_skipped_or_stop_the_source() -> None:
    spoiled = Spoiled(ORDERS, "5-1", "no reason")
    assert Rendering(source(on_error="skip")).records([spoiled], NOW_NS) == []
    with pytest.raises(CannotTell, match="no reason"):
        Rendering(source(on_error="fail")).records([spoiled], NOW_NS)


def test_a_heartbeat_looks_like_one_of_debezium() -> None:
    topic, record = Rendering(source()).heartbeat(5)
    assert topic == "__debezium-heartbeat.shop"
    assert (record.key, record.value) == (b'{"serverName":"shop"}', b'{"ts_ms":5}')

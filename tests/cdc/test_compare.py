"""Two pipelines over the same source, key by key."""

import json
from typing import Any

from chordmq.cdc.compare import (
    DIFFERENT,
    ONLY_OURS,
    ONLY_THEIRS,
    ORDER,
    REPEATED,
    Told,
    compare,
    read_told,
)


def told(key: int, at: int, value: Any = 0, op: str = "u") -> Told:
    return Told(str(key), op, (at,), None, {"v": value})


def test_the_same_changes_are_equal_whatever_else_each_has_told() -> None:
    """E16: what one could not know, because it began later or is not so far, is no difference."""
    ours = [told(1, 10), told(1, 20), told(2, 30)]
    theirs = [told(1, 20), told(2, 30), told(1, 40)]
    report = compare("orders", ours, theirs)
    assert (report.keys, report.equal, report.differences) == (2, 2, [])


def test_a_change_that_only_one_has_told_is_found() -> None:
    ours = [told(1, 10), told(1, 20), told(1, 40)]
    theirs = [told(1, 10), told(2, 30), told(1, 40)]
    report = compare("orders", ours, theirs)
    assert report.counts == {ONLY_OURS: 1, ONLY_THEIRS: 1}
    assert [str(one) for one in report.differences] == [
        "only ours: key 1, u at 20",
        "only theirs: key 2, u at 30",
    ]


def test_other_values_are_named_by_their_column_unless_that_is_ignored() -> None:
    report = compare("orders", [told(1, 10, 5)], [told(1, 10, 6)])
    assert report.counts == {DIFFERENT: 1}
    assert report.differences[0].detail == "after.v 5 is 6 there"
    assert not compare("orders", [told(1, 10, 5)], [told(1, 10, 6)], frozenset("v")).differences


def test_what_comes_twice_or_in_another_order_is_found() -> None:
    straight = [told(1, 10), told(1, 20), told(1, 30)]
    assert compare("t", [*straight[:2], *straight[1:]], straight).counts == {REPEATED: 1}
    assert compare("t", [straight[1], straight[0], straight[2]], straight).counts == {ORDER: 1}


def test_nothing_to_compare_is_no_difference() -> None:
    assert compare("t", [], [told(1, 10)]).row() == ["t", 0, 0, 0, 0, 0]


def test_events_are_read_with_schemas_in_envelopes_and_plain() -> None:
    event = {"op": "c", "before": None, "after": {"v": 1}, "source": {"lsn": 7}}
    expected = Told('{"id":1}', "c", (7,), None, {"v": 1})
    key = b'{"id": 1}'
    assert read_told(key, json.dumps(event).encode()) == expected
    with_schema = json.dumps({"schema": {}, "payload": event}).encode()
    assert read_told(b'{"schema": {}, "payload": {"id": 1}}', with_schema) == expected
    wrapped = json.dumps({"metadata": {}, "payload": event}).encode()
    assert read_told(key, wrapped) == expected


def test_documents_that_are_texts_are_opened() -> None:
    source = {"ts_ms": 5, "ord": 2, "collection": "c"}
    event = {"op": "u", "before": None, "after": '{"_id": 1,"v": 2}', "source": source}
    found = read_told(b'{"id": "1"}', json.dumps(event).encode())
    assert found is not None
    assert (found.at, found.after) == ((5, 2), {"_id": 1, "v": 2})


def test_tombstones_snapshots_and_strange_records_are_passed_over() -> None:
    read = json.dumps({"op": "r", "source": {"lsn": 1}}).encode()
    for value in (None, read, b"garbage", b'{"op": "c"}', b"5"):
        assert read_told(b"{}", value) is None

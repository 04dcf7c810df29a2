"""Large events that come in parts."""

import pytest

from chordmq.cdc.mongodb.fragments import Event, Fragments, has_split


def part(number: int, of: int, **fields: object) -> Event:
    return {"_id": {"_data": f"t{number}"}, "splitEvent": {"fragment": number, "of": of}, **fields}


def test_parts_are_joined_also_over_batches_and_have_the_token_of_the_last() -> None:
    """E8: nobody sees an event before it is whole, so that no position lies in the midst of it."""
    fragments, small = Fragments(), {"_id": {"_data": "s"}, "operationType": "insert"}
    assert fragments.joined([small, part(1, 3, operationType="update")]) == [small]
    assert fragments.is_open
    assert fragments.joined([part(2, 3, fullDocument={"a": 1})]) == []
    whole = {
        "_id": {"_data": "t3"},
        "operationType": "update",
        "fullDocument": {"a": 1},
        "fullDocumentBeforeChange": {},
    }
    assert fragments.joined([part(3, 3, fullDocumentBeforeChange={}), small]) == [whole, small]
    assert not fragments.is_open


def test_parts_are_forgotten_when_the_stream_begins_again() -> None:
    fragments = Fragments()
    fragments.joined([part(1, 2, stale=True)])
    fragments.forget()
    assert not fragments.is_open
    assert "stale" not in fragments.joined([part(1, 2), part(2, 2)])[0]


@pytest.mark.parametrize(
    ("version", "expected"),
    [([5, 0, 32], False), ([6, 0, 5, 0], False), ([6, 0, 9, 0], True), ([6, 1, 0], False),
     ([7, 0, 0, 0], True), ([8, 0, 4], True)],
)  # fmt: skip
def test_servers_that_split_events_are_known_by_their_version(
    version: list[int], expected: bool
) -> None:
    assert has_split(version) is expected

"""What nodes ask of a cursor's node comes out as it went in, and garbage is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.cursors.cursor import Delivery
from chordmq.broker.cursors.shared_cursor import Outcome, Taken
from chordmq.broker.cursors.wishes import (
    Leaving,
    Opening,
    Place,
    Reading,
    Rules,
    Settled,
    Settling,
    Taking,
    Wish,
    read_given,
    read_place,
    read_wish,
    write_given,
)
from chordmq.errors import DecodeError

PLACE = Place("group", bytes(16), 3)


@pytest.mark.parametrize(
    "wish",
    [
        Opening("group", "topic", 3, -2),
        Opening("group", "topic", 3, -2, Rules(1, 2, 3, True, "dead")),
        Reading(7),
        Taking(PLACE, "me", 10, 1000, True),
        Settling(PLACE, "me", (Settled(1, 2, (Outcome.ACCEPT, Outcome.RELEASE)),)),
        Leaving(PLACE, "me"),
    ],
    ids=lambda wish: type(wish).__name__,
)
def test_a_wish_comes_out_as_it_went_in(wish: Wish) -> None:
    assert read_wish(memoryview(msgspec.msgpack.encode(wish))) == wish
    assert read_place(memoryview(msgspec.msgpack.encode(PLACE))) == PLACE


def test_records_come_with_who_has_got_which() -> None:
    batches = [memoryview(b"first"), memoryview(b"second")]
    sent = Delivery(batches, [Taken(1, 2, 1), Taken(5, 9, 3)])
    body = memoryview(b"".join(write_given(sent, 1, 8)))
    given_, got = read_given(body, None)  # type: ignore[arg-type]
    assert (given_.start, given_.lag) == (1, 8)
    assert (got.batches, got.taken) == (sent.batches, sent.taken)
    with pytest.raises(DecodeError):
        read_given(body[:-1], None)  # type: ignore[arg-type]


@given(st.binary(max_size=60))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    body = memoryview(data)
    for read in (read_wish, read_place, lambda one: read_given(one, None)):  # type: ignore[arg-type]
        try:
            read(body)
        except DecodeError:
            pass

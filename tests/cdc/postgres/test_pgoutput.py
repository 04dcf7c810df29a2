"""The messages of PostgreSQL's logical decoding."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    Truncate,
    Update,
    decode,
    lsn_text,
    read_lsn,
    read_visibility,
)

ROW = pack(">H", 3) + b"t" + pack(">I", 2) + b"42" + b"n" + b"u"
VALUES = [b"42", None, UNCHANGED]

MESSAGES = {
    b"B" + pack(">QqI", 7, 5, 42): Begin(7, EPOCH_US + 5, 42),
    b"C" + pack(">BQQq", 0, 7, 9, 5): Commit(7, 9, EPOCH_US + 5),
    b"R"
    + pack(">I", 16)
    + b"public\0items\0d"
    + pack(">H", 1)
    + b"\x01id\0"
    + pack(">Ii", 23, -1): (Relation(16, "public", "items", "d", (Column("id", 23, -1, True),))),
    b"I" + pack(">I", 16) + b"N" + ROW: Insert(16, VALUES),
    b"U" + pack(">I", 16) + b"N" + ROW: Update(16, "", None, VALUES),
    b"U" + pack(">I", 16) + b"O" + ROW + b"N" + ROW: Update(16, "O", VALUES, VALUES),
    b"D" + pack(">I", 16) + b"K" + ROW: Delete(16, "K", VALUES),
    b"T" + pack(">IBII", 2, 0, 16, 17): Truncate((16, 17)),
    b"M" + pack(">BQ", 1, 7) + b"chordmq\0" + pack(">I", 2) + b"hi": Message(7, "chordmq", b"hi"),
    b"O" + pack(">Q", 1) + b"origin\0": Other("O"),
    b"Y" + pack(">I", 1) + b"public\0mood\0": Other("Y"),
}


@pytest.mark.parametrize(("data", "message"), MESSAGES.items())
def test_messages_are_read_as_the_documentation_lays_them_out(data: bytes, message: object) -> None:
    assert decode(data) == message


@given(st.sampled_from(sorted(MESSAGES)), st.data())
def test_a_message_that_is_cut_short_is_malformed_or_read_without_its_rest(
    message: bytes, data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, len(message) - 1))
    try:
        decode(message[:size])
    except Malformed:
        return


@given(st.binary(max_size=60))
def test_garbage_raises_malformed_and_nothing_else(data: bytes) -> None:
    try:
        decode(data)
    except Malformed:
        return


@given(st.integers(0, 2**64 - 1))
def test_places_in_the_log_are_written_as_the_server_writes_them(lsn: int) -> None:
    assert read_lsn(lsn_text(lsn)) == lsn


def test_a_place_that_is_none_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_lsn("nowhere")


def test_a_snapshot_sees_what_was_committed_before_it_began() -> None:
    seen = read_visibility("10:20:12,15")
    assert [xid for xid in range(8, 22) if seen.sees(xid)] == [
        8, 9, 10, 11, 13, 14, 16, 17, 18, 19,
    ]  # fmt: skip


def test_transaction_numbers_go_round() -> None:
    """A snapshot tells 64 bits and the stream 32: after the round the small ones are newer."""
    seen = read_visibility(f"{2**32 - 5}:{2**32 + 5}:")
    assert seen.sees(2**32 - 6)
    assert seen.sees(4)
    assert not seen.sees(5)


def test_a_snapshot_that_is_none_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_visibility("garbage")

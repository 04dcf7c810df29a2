"""Durable sessions: their records, and what is left after an end."""

import pytest

from chordmq.broker.sessions import (
    Arrival,
    Ended,
    Entry,
    Place,
    Progress,
    StoredFlight,
    StoredSession,
    StoredSubscription,
    StoredWill,
    read,
    write,
)
from chordmq.errors import DecodeError

SESSION = StoredSession(
    client="d7",
    user="alice",
    expiry_s=60,
    left_ms=5,
    producer_id=9,
    subscriptions=(StoredSubscription("a/#", 2, True, False, 7, (("k", "v"),)),),
    will=StoredWill("w", b"gone", 1, True, b"\0"),
)
PROGRESS = Progress(
    client="d7",
    places=(Place(b"i" * 16, 0, 12),),
    flights=(StoredFlight(3, b"i" * 16, 0, 11, 2),),
    arrivals=(Arrival(4, b"i" * 16, 0, 99),),
)


@pytest.mark.parametrize("entry", [SESSION, PROGRESS])
def test_a_record_is_read_as_it_was_written(entry: Entry) -> None:
    assert read(*write(entry)) == entry


def test_an_end_names_what_has_ended() -> None:
    key, value = write(Ended(b"sd7"))
    assert (key, value) == (b"sd7", None)
    assert read(b"sd7", None) == Ended(b"sd7")


@pytest.mark.parametrize(("key", "value"), [(b"sx", b"\xc1"), (b"?x", b"\x80"), (b"px", b"\x01")])
def test_nonsense_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(DecodeError):
        read(key, value)

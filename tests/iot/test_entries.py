"""What the store keeps of devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import DecodeError
from chordmq.iot.commands import Command
from chordmq.iot.devices import Device
from chordmq.iot.entries import Entry, Gone, Outgoing, Progress, ShadowOf, key_of, read, write
from chordmq.iot.shadow import Shadow

COMMAND = Command(
    id="c/1",
    device="d7",
    name="dim",
    parameters={"to": [1, None]},
    issued_ms=1,
    expires_ms=2,
    retry_ms=3,
    attempts_max=4,
    order=5,
)
ENTRIES: list[Entry] = [
    Device(id="d7", registered_ms=1, tags={"room": "4"}),
    ShadowOf("d7", Shadow(desired={"a": {"b": 1.5}}, version=3, is_deleted=False)),
    COMMAND,
    Progress(
        offsets={0: 7},
        sequences={"t-0": 3},
        outgoing=(Outgoing("d7", "n", None, (("h", b"v"), ("x", None)), is_dead=True),),
    ),
    Gone("s/d7"),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_every_entry_is_read_as_it_was_written(entry: Entry) -> None:
    """E9, E10: a restart finds what was stored."""
    assert read(*write(entry)) == entry


def test_each_kind_has_keys_of_its_own() -> None:
    assert [key_of(entry) for entry in ENTRIES] == ["d/d7", "s/d7", "c/d7/c/1", "p", "s/d7"]


@given(st.binary(max_size=20), st.binary(max_size=40))
def test_garbage_is_refused(key: bytes, value: bytes) -> None:
    try:
        read(key, value)
    except DecodeError:
        pass

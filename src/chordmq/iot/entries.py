"""What the store keeps of devices, and how the topic `__devices` writes it (pure).

The topic is compacted. A key is `d/<device>`, `s/<device>`, `s/<device>/<name>`,
`c/<device>/<command>` or `p`, a value is MessagePack: a device, its shadow, one of its named
shadows, a command, and how far the service is. No value: it is gone.
"""

from typing import Any, NamedTuple

import msgspec

from chordmq.errors import DecodeError
from chordmq.iot.commands import Command
from chordmq.iot.devices import Device
from chordmq.iot.shadow import Shadow
from chordmq.records.record import Headers

DEVICE, SHADOW, COMMAND, PROGRESS = "d", "s", "c", "p"


class Outgoing(msgspec.Struct, frozen=True, array_like=True):
    """A message that the service publishes: which it may have to do again after a crash."""

    device: str
    name: str
    value: bytes | None
    headers: Headers = ()
    is_retained: bool = False
    """Whether new subscribers get it; without a value, they get none any more."""
    is_dead: bool = False
    """Whether it goes to the dead letters."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the service is in the topic of devices, and what it was about to publish then."""

    offsets: dict[int, int] = {}
    """Of the next message to read, by partition."""
    topic_id: bytes = b""
    """Offsets count in this topic only."""
    producer_id: int = -1
    sequences: dict[str, int] = {}
    """Of the first message to publish, by topic and partition: the log knows those it has."""
    outgoing: tuple[Outgoing, ...] = ()
    now_ms: int = 0
    count: int = 0
    """Messages published in all; numbers them."""


class ShadowOf(NamedTuple):
    """The shadow of a device, and under what it is kept: the device, or the device and a name."""

    place: str
    shadow: Shadow


class Gone(NamedTuple):
    """Something that is kept no more."""

    key: str


Entry = Device | ShadowOf | Command | Progress | Gone

_KINDS: dict[str, Any] = {DEVICE: Device, SHADOW: Shadow, COMMAND: Command, PROGRESS: Progress}


def key_of(entry: Entry) -> str:
    """Return under which key an entry is kept."""
    if isinstance(entry, Gone):
        return entry.key
    if isinstance(entry, Device):
        return f"{DEVICE}/{entry.id}"
    if isinstance(entry, ShadowOf):
        return f"{SHADOW}/{entry.place}"
    if isinstance(entry, Command):
        return f"{COMMAND}/{entry.device}/{entry.id}"
    return PROGRESS


def write(entry: Entry) -> tuple[bytes, bytes | None]:
    """Return a record's key and value."""
    key = key_of(entry).encode()
    if isinstance(entry, Gone):
        return key, None
    return key, msgspec.msgpack.encode(entry.shadow if isinstance(entry, ShadowOf) else entry)


def read(key: bytes, value: bytes | None) -> Entry:
    """Return what a record says; raise DecodeError if it makes no sense."""
    try:
        name = key.decode()
        if value is None:
            return Gone(name)
        found = msgspec.msgpack.decode(value, type=_KINDS[name[:1]])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise DecodeError(f"a record of devices: {error}") from None
    if isinstance(found, Shadow):
        return ShadowOf(name.partition("/")[2], found)
    entry: Entry = found
    return entry

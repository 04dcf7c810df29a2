"""What the provider's frames say in JSON: who comes, what is wanted, and that a data set is new."""

from typing import Literal, TypeVar

import msgspec

from chordmq.codecs.provider.frames import HEAD_SIZE, Type
from chordmq.errors import DecodeError
from chordmq.records.record import NewRecord, Record

CREDIT = 1_000
ACK_TIMEOUT_MS = 30_000
MARKER_HEADER = "chordmq.marker"
"""Makes a record the beginning (RESET) or the end (READY) of a new data set."""


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of a first HEARTBEAT: who comes."""

    token: str = ""
    client: str = ""
    """What the client calls itself."""


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of SUBSCRIBE: what is wanted, and how."""

    topic: str
    group: str = ""
    """Where the place is kept; a consumer with an index of its own may do without."""
    index: Literal["own", "shared"] = "own"
    """Whether this consumer gets everything, or shares it with others of the group."""
    start: str | int | dict[int, int] = msgspec.field(default="committed", name="from")
    """`committed`, `earliest`, `latest`, an offset, or an offset for each partition."""
    since_ms: int | None = None
    """Begin with the first message that is not older than this time."""
    credit: int = CREDIT
    """Messages that may be without acknowledgement; 0 if none is ever sent (own index only)."""
    ack_timeout_ms: int = ACK_TIMEOUT_MS
    """After which a message without acknowledgement is delivered again."""
    deliveries_max: int = 0
    """Attempts, after which a shared message is given up; 0 tries for ever."""
    dead_letter: str = ""
    """The topic that gets a copy of shared messages that were given up."""
    token: str = ""
    client: str = ""


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of RESET and READY: which data set is published anew."""

    topic: str
    data_set: str = ""
    """One of several that share a topic."""
    refresh: str = ""
    """What the publisher calls this edition of the data set."""
    partitions: int = 0
    """How many partitions have a marker like this; the node fills it in."""


Json = TypeVar("Json", Login, Subscribe, Marker)

STARTS = ("committed", "earliest", "latest")
_decoders = {kind: msgspec.json.Decoder(kind) for kind in (Login, Subscribe, Marker)}
_encode = msgspec.json.Encoder().encode


def read(kind: type[Json], data: bytes) -> Json:
    """Read the payload of a frame, or raise DecodeError with what is wrong."""
    try:
        found = _decoders[kind].decode(data[HEAD_SIZE:] or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError(f"{Type(data[0]).name}: {error}") from None
    assert isinstance(found, kind)
    return found


def positions(offsets: dict[int, int]) -> bytes:
    """Return where a subscription begins, by partition."""
    return _encode({"positions": offsets})


def marker_record(kind: Type, marker: Marker, now_ms: int) -> NewRecord:
    """Return the record that marks the beginning or the end of a data set in one partition.

    It has a key, so that compaction keeps the newest of its kind.
    """
    key = f"{MARKER_HEADER}:{kind.name}:{marker.data_set}".encode()
    return NewRecord(now_ms, key, _encode(marker), ((MARKER_HEADER, kind.name.encode()),))


def marker_of(record: Record) -> Type | None:
    """Return what a record marks, or None for an ordinary one."""
    for name, value in record.headers:
        if name == MARKER_HEADER:
            if value == b"RESET":
                return Type.RESET
            return Type.READY if value == b"READY" else None
    return None

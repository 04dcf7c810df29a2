"""The plain length-prefixed protocol: a role, then messages, each a frame of any bytes.

The first frame is text: `PRODUCER` or `CONSUMER`, then options as `name=value` with spaces between.
A producer's frames are messages; with `ack=each` each is answered by `ACK <offset>`. A consumer's
messages come as frames; it says `ACK` for the oldest that it has not acknowledged, unless it chose
`ack=auto`. What is wrong is said in a frame that begins with `ERROR `.
"""

import struct
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum

from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

HELLO_SIZE_MAX = 4096
ACK = b"ACK"

_SIZE = struct.Struct(">i")


class Role(Enum):
    """What a client has come for."""

    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame; an option that is empty was not given."""

    role: Role
    topic: str = ""
    token: str = ""
    ack: str = ""
    """Producers: `none` or `each`. Consumers: `each` or `auto`."""
    mode: str = ""
    """Consumers: `broadcast` or `queue`."""
    name: str = ""
    """Consumers: who comes back under this name goes on where it stopped."""
    start: str = ""
    """Consumers: `earliest` or `latest`, for a name or queue that is new."""


CHOICES = {
    "mode": ("broadcast", "queue"),
    "start": ("earliest", "latest"),
}
ACKS = {Role.PRODUCER: ("none", "each"), Role.CONSUMER: ("each", "auto")}
_OPTIONS = tuple(field.name for field in fields(Hello) if field.name != "role")


def read_hello(frame: bytes) -> Hello:
    """Read the first frame, or raise DecodeError with what should stand there."""
    if len(frame) > HELLO_SIZE_MAX:
        raise DecodeError(f"the first frame has {len(frame)} bytes, at most {HELLO_SIZE_MAX}")
    try:
        words = str(frame, "utf-8").split()
    except UnicodeDecodeError:
        raise DecodeError("the first frame must be the text PRODUCER or CONSUMER") from None
    try:
        role = Role(words[0].upper() if words else "")
    except ValueError:
        raise DecodeError("the first frame must begin with PRODUCER or CONSUMER") from None
    return Hello(role, **_options(role, words[1:]))


def _options(role: Role, words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in _OPTIONS:
            raise DecodeError(f"{word[:50]!r}: options are {', '.join(_OPTIONS)}, as name=value")
        if name in found:
            raise DecodeError(f"the option {name} stands there twice")
        allowed = ACKS[role] if name == "ack" else CHOICES.get(name, ())
        if allowed and value not in allowed:
            raise DecodeError(f"{name} must be {' or '.join(allowed)}, not {value[:50]!r}")
        found[name] = value
    return found


def frame(payload: bytes) -> bytes:
    """Return the payload with its size before it."""
    return _SIZE.pack(len(payload)) + payload


def join_frames(payloads: Iterable[bytes]) -> bytes:
    """Return many frames as one piece, to be sent by one write."""
    parts: list[bytes] = []
    for payload in payloads:
        parts.append(_SIZE.pack(len(payload)))
        parts.append(payload)
    return b"".join(parts)


def error(text: str) -> bytes:
    """Return the frame that says what is wrong."""
    return frame(f"ERROR {text}".encode())


def acknowledged(first_offset: int, count: int) -> bytes:
    """Return the answers to so many messages, which have offsets one after the other."""
    return join_frames(b"ACK %d" % (first_offset + number) for number in range(count))

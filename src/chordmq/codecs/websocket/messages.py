"""The gateway's messages: what clients ask, and what they are told.

Both sub-protocols have the same messages. `chordmq.msgpack` has bytes where `chordmq.json` has a
text and says in which encoding it is.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from chordmq.codecs.texts import NULL, Encoding, Header, Shown

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Id = int | str | None
Index = Annotated[int, Meta(ge=0, le=INT_MAX)]
Count = Annotated[int, Meta(ge=1, le=INT_MAX)]
Long = Annotated[int, Meta(ge=0, le=LONG_MAX)]
Name = Annotated[str, Meta(max_length=65_535)]
Positions = dict[str, str]
"""Where to go on, by log topic: `{"orders": "0:15,1:7"}`, the next offset of each partition."""


class Request(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, tag_field="type"):
    """What a client asks; the answer bears the same id."""

    id: Id = None


class Login(Request, tag="login", frozen=True):
    """Says who the client is, if the handshake did not."""

    token: str


class Publish(Request, tag="publish", frozen=True):
    """Sends one message under a name, or to a log topic."""

    topic: Name
    timestamp: Long | None = None
    partition: Index | None = None


class PublishText(Publish, tag="publish", frozen=True):
    """A message in JSON."""

    value: Raw = msgspec.field(default_factory=lambda: NULL)
    key: Raw = msgspec.field(default_factory=lambda: NULL)
    headers: list[Header] | dict[str, str] = []
    encoding: Encoding = "utf-8"
    key_encoding: Encoding = "utf-8"


class PublishBytes(Publish, tag="publish", frozen=True):
    """A message in MessagePack."""

    value: bytes | None = None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []


class Start(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A place to begin at: a time in milliseconds, or an offset of one partition."""

    timestamp: Long | None = None
    offset: Long | None = None
    partition: Index = 0


class Subscribe(Request, tag="subscribe", frozen=True):
    """Asks for the messages of a log topic, or of all names that a filter matches."""

    id: int | str
    topic: Name
    start: Literal["earliest", "latest"] | Start = "latest"
    positions: Positions | None = None
    """Goes on where another subscription stopped; topics that are not in it are read whole."""
    group: Annotated[str, Meta(max_length=249)] = ""
    """Shares the messages with all who name the same group; each goes to one of them."""
    credit: Annotated[int, Meta(ge=0, le=INT_MAX)] | None = None
    """How many messages may come before more credit is given; as many as there are if not said.
    In a group: how many may be held without having been acknowledged."""
    when_full: Literal["wait", "drop"] = "wait"
    encoding: Shown = "auto"


class Unsubscribe(Request, tag="unsubscribe", frozen=True):
    """Ends a subscription."""

    id: int | str


class Credit(Request, tag="credit", frozen=True):
    """Lets more messages come."""

    id: int | str
    count: Count


class Ack(Request, tag="ack", frozen=True):
    """Says what became of messages of a group: processed, to be tried again, or given up."""

    id: int | str
    topic: Name
    partition: Index
    offset: Long
    last: Long | None = None
    outcome: Literal["accept", "release", "reject"] = "accept"


class Ping(Request, tag="ping", frozen=True):
    """Asks for a sign of life, for clients that cannot send the protocol's own."""


TextRequest = Login | PublishText | Subscribe | Unsubscribe | Credit | Ack | Ping
BytesRequest = Login | PublishBytes | Subscribe | Unsubscribe | Credit | Ack | Ping


class Told(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What a client is told; with the id of the request or of the subscription."""

    id: Id = None


class Welcome(Told, tag="welcome", frozen=True):
    """Comes when the client may begin."""

    client: str
    user: str


class Published(Told, tag="published", frozen=True):
    """Where a message came to lie; it is as durable by then as its topic's settings ask."""

    topic: str
    partition: int
    offset: int


class Subscribed(Told, tag="subscribed", frozen=True):
    """Comes before the first message; says where reading begins."""

    positions: Positions


class Unsubscribed(Told, tag="unsubscribed", frozen=True):
    """Comes after the last message; with the reason if it was not the client's wish."""

    error: str = ""
    message: str = ""


class Acknowledged(Told, tag="acknowledged", frozen=True):
    """What became of messages is stored."""

    topic: str
    partition: int
    offset: int


class Gap(Told, tag="gap", frozen=True):
    """Messages that the log does not hold any more, or never got to hold."""

    topic: str
    partition: int
    wanted: int
    next: int


class Dropped(Told, tag="dropped", frozen=True):
    """Offsets that were skipped because the client was too slow and had chosen so."""

    topic: str
    count: int
    position: str


class Throttled(Told, tag="throttled", frozen=True):
    """The client is above a quota: for so long nothing is read from it, or nothing sent to it."""

    wait_ms: int
    direction: Literal["in", "out"]


class Refused(Told, tag="error", frozen=True):
    """What is wrong with a request."""

    error: str
    message: str


class Pong(Told, tag="pong", frozen=True):
    """The sign of life that was asked for."""


class RecordText(Struct, frozen=True, omit_defaults=True):
    """A record in JSON."""

    partition: int
    offset: int
    timestamp: int
    key: str | Raw | None
    value: str | Raw | None
    headers: list[Header] = []
    encoding: Encoding = "utf-8"
    key_encoding: Encoding = "utf-8"
    name: str = ""
    deliveries: int = 0


class RecordBytes(Struct, frozen=True, omit_defaults=True):
    """A record in MessagePack."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = []
    name: str = ""
    deliveries: int = 0

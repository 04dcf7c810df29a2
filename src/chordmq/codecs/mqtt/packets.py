"""The packets of MQTT 3.1.1 and 5 as values; runs of alike packets are one value."""

from dataclasses import field

from chordmq.codecs.mqtt.properties import NONE, Properties
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.dataclass import dataclass

V311, V5 = 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """The message that is published for a client that goes without a word."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """A client asks to be let in."""

    version: int
    clean_start: bool
    keep_alive_s: int
    client_id: str
    will: Will | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = NONE


@dataclass(slots=True)
class Run:
    """Messages to one topic with one QoS, 0 or 1, without anything special, one after another."""

    topic: bytes
    name: str
    payloads: list[bytes]
    ids: list[bytes]
    """Packet identifiers as they came; none with QoS 0."""
    raw: bytes
    """The packets as they came, with QoS 0: subscribers of the same version get just these."""
    size: int
    """Bytes that the packets take."""

    @property
    def qos(self) -> int:
        """Return the QoS of all messages."""
        return 1 if self.ids else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A message with whatever it may have; an empty topic stands for that of the alias."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    id: int = 0
    properties: Properties = NONE


@dataclass(frozen=True, slots=True)
class Acks:
    """PUBACK packets that say that all is well, one after another."""

    ids: list[int]


@dataclass(frozen=True, slots=True)
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    id: int
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a client wants what a filter matches."""

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Filters that a client asks for."""

    id: int
    filters: list[tuple[str, Options]]
    properties: Properties = NONE


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Filters that a client wants no more."""

    id: int
    filters: list[str]
    properties: Properties = NONE


@dataclass(frozen=True, slots=True)
class Ping:
    """A sign of life."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The client goes, or must go."""

    reason: int = Reason.SUCCESS
    properties: Properties = NONE


@dataclass(frozen=True, slots=True)
class Auth:
    """One step of an enhanced authentication."""

    reason: int
    properties: Properties = field(default=NONE)


Packet = Connect | Run | Publish | Acks | Ack | Subscribe | Unsubscribe | Ping | Disconnect | Auth
"""What a client can send."""

"""What can be set for MQTT."""

from dataclasses import replace
from typing import Literal

from chordmq.dataclass import dataclass
from chordmq.fronts.certificates import TlsSettings
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings(ListenerSettings):
    """Where the front listens, and how much its clients may ask for."""

    port: int = 1883
    tls_port: int = 8883
    """Where clients are served with TLS, if `mqtt.tls.certificate` is set."""
    plain: bool = True
    """Whether `mqtt.port` is served as well if there is a certificate."""
    frame_size_max: int = 4 * 1024 * 1024
    keep_alive_max_s: int = 0
    """The longest keep-alive that a client gets; 0 lets each choose, also none at all."""
    receive_maximum: int = 100
    """Messages of QoS 1 and 2 that a client may send without waiting for an answer."""
    inflight_max: int = 1_000
    """Messages of QoS 1 and 2 that a client gets without having answered, if it asks for no
    smaller number."""
    pending_max: int = 10_000
    """Messages that wait in memory for a slow client; beyond them the log is its buffer."""
    topic_alias_maximum: int = 32
    """Names that each side may give to topics on one connection."""
    session_expiry_max_s: int = 30 * 24 * 3600
    """How long the session of a client may wait for its return; those of MQTT 3.1.1 wait so
    long."""
    subscriptions_max: int = 1_000
    """Subscriptions of one client."""
    retained_max: int = 1_000_000
    """Names that may have a retained message."""
    acl: str = ""
    """Rules by topic filter, with semicolons between: `allow|deny user publish|subscribe|all
    filter`; `*` stands for every user, `%u` in the filter for the user and `%c` for the client
    id."""
    subscribe_denied: Literal["not-authorized", "unspecified"] = "not-authorized"
    """What MQTT 5 clients are told of a filter that they may not subscribe to: 0x87 or 0x80."""
    sys_interval_s: float = 10.0
    """How often the topics below `$SYS` are told to who has subscribed to them; 0 for never."""


def listeners(settings: MqttSettings) -> dict[str, MqttSettings]:
    """Return where to listen, by name: `mqtt` without TLS, `mqtts` with it."""
    found = {}
    if settings.plain or not settings.tls.is_on:
        found["mqtt"] = replace(settings, tls=TlsSettings())
    if settings.tls.is_on:
        found["mqtts"] = replace(settings, port=settings.tls_port)
    return found

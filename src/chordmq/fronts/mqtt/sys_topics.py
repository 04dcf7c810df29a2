"""The topics below `$SYS`: what the broker tells of itself; no log keeps them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chordmq.codecs.mqtt.fields import write_binary
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.version import VERSION

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront

PREFIX = "$SYS"


def values(front: "MqttFront") -> dict[str, object]:
    """Return what there is to tell, by name."""
    sessions, uptime_s = len(front.sessions), int(front.uptime_s())
    return {
        "$SYS/broker/version": f"chordmq {VERSION}",
        "$SYS/broker/uptime": f"{uptime_s} seconds",
        "$SYS/broker/clients/connected": front.connected,
        "$SYS/broker/clients/disconnected": sessions - front.connected,
        "$SYS/broker/clients/total": sessions,
        "$SYS/broker/subscriptions/count": len(front.interest),
        "$SYS/broker/retained messages/count": len(front.broker.retained.tree),
        "$SYS/broker/messages/received": front.messages_in,
        "$SYS/broker/messages/sent": front.messages_out,
        "$SYS/broker/publish/messages/refused": front.refused,
    }


def parcels(front: "MqttFront") -> Iterator[Parcel]:
    """Yield what there is to tell as retained messages."""
    for name, value in values(front).items():
        yield Parcel(
            name=name,
            topic=write_binary(name.encode()),
            payloads=[str(value).encode()],
            qos=0,
            retain=True,
        )

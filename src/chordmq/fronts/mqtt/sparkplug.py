"""Sparkplug: births of edge nodes and devices are kept, so that who comes later finds them.

What is published to `spBv1.0/group/NBIRTH/node` is also a retained message under
`$sparkplug/certificates/spBv1.0/group/NBIRTH/node`, and so are births of devices.
"""

from typing import TYPE_CHECKING

from chordmq.broker.retained import Retained
from chordmq.broker.subscriptions import SEPARATOR
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.mapping import parcel_of_retained

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront, Route

NAMESPACE = "spBv1.0"
BIRTHS = ("NBIRTH", "DBIRTH")
PREFIX = "$sparkplug/certificates/"


def certificate_of(name: str) -> str:
    """Return where a birth is kept; nothing for names that are no births."""
    levels = name.split(SEPARATOR)
    is_birth = len(levels) >= 4 and levels[0] == NAMESPACE and levels[2] in BIRTHS
    return PREFIX + name if is_birth else ""


def certify(front: "MqttFront", route: "Route", payload: bytes, qos: int) -> None:
    """Keep a birth, and give it to who has subscribed to births."""
    message = Retained(
        name=route.certificate, payload=payload, qos=qos, timestamp_ms=front.now_ms()
    )
    try:
        front.broker.retained.keep(message, front.settings.retained_max).add_done_callback(
            lambda kept: kept.cancelled() or kept.exception()
        )
    except ChordMQError:
        front.refused += 1
        return
    if front.broker.topics.is_alone:  # else all nodes hear of it
        announce(front, message)


def announce(front: "MqttFront", message: Retained) -> None:
    """Give a birth that is kept to who has subscribed to births."""
    if message.name.startswith(PREFIX) and message.payload:
        log_topic = front.log_topic(message.name.removeprefix(PREFIX))
        parcel = parcel_of_retained(message)
        for target in front.interest.targets(message.name, log_topic):
            target.session.outbox.offer(parcel, target)

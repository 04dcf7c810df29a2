"""What clients wait for: answers, which go out in the order of what they answer."""

from typing import TYPE_CHECKING

from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.packets import V5
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.errors import PUBLISH_REASONS, reason_of

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection


class Answer:
    """One answer of several that go out in the order of what they answer (MQTT-4.6.0-2)."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data: bytes | None = None


def refusal(connection: "MqttConnection", kind: int, number: int, error: ChordMQError) -> bytes:
    """Return why a message is not stored; MQTT 3.1.1 has no word for it but the end."""
    if connection.version != V5:
        connection.fail(error)
        return b""
    reason = reason_of(error, PUBLISH_REASONS)
    return writer.ack(kind, number, V5, reason, connection.because(str(error)))

"""The numbers of the MQTT front."""

from collections.abc import Iterator

from chordmq.fronts.mqtt.front import MqttFront
from chordmq.metrics import Metric, counter, gauge


def mqtt_measures(front: MqttFront) -> Iterator[Metric]:
    """Yield what came, what went, and who is connected."""
    yield counter("chordmq_mqtt_messages_in", "Messages taken.", front.messages_in)
    yield counter("chordmq_mqtt_messages_out", "Messages delivered.", front.messages_out)
    yield counter(
        "chordmq_mqtt_messages_refused",
        "Messages that were not stored: not allowed, too large, or no room.",
        front.refused,
    )
    yield gauge("chordmq_mqtt_clients", "Clients connected.", front.connected)
    yield gauge(
        "chordmq_mqtt_sessions", "Sessions, with those of absent clients.", len(front.sessions)
    )
    yield gauge("chordmq_mqtt_subscriptions", "Subscriptions of all sessions.", len(front.interest))
    yield gauge("chordmq_mqtt_retained", "Retained messages.", len(front.broker.retained.tree))

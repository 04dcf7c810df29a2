"""Wills: messages that are published when clients go without a word, or stay away too long."""

from chordmq.broker.sessions import StoredWill
from chordmq.codecs.mqtt.packets import Publish, Will
from chordmq.codecs.mqtt.properties import NONE, read_properties, write_properties
from chordmq.codecs.mqtt.properties import WILL as WILL_PROPERTIES


def stored_will(will: Will | None) -> StoredWill | None:
    """Return a will as the log keeps it."""
    if will is None:
        return None
    return StoredWill(
        will.topic, will.payload, will.qos, will.retain, write_properties(will.properties)
    )


def will_of(stored: StoredWill | None) -> Will | None:
    """Return a will that the log has kept."""
    if stored is None:
        return None
    properties = NONE
    if stored.properties != b"\0":
        data = stored.properties
        properties, _ = read_properties(data, 0, len(data), WILL_PROPERTIES)
    return Will(
        topic=stored.topic,
        payload=stored.payload,
        qos=stored.qos,
        retain=stored.retain,
        properties=properties,
    )


def message_of(will: Will) -> Publish:
    """Return the message that a will asks for."""
    return Publish(
        topic=will.topic,
        payload=will.payload,
        qos=will.qos,
        retain=will.retain,
        properties=will.properties,
    )

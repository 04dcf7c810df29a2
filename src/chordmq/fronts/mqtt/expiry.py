"""How long the session of a client waits for its return."""

from chordmq.codecs.mqtt.packets import V5, Connect


def expiry_of(packet: Connect, longest_s: int) -> int:
    """Return the seconds that a session may wait, as far as the node allows."""
    if packet.version != V5:
        return 0 if packet.clean_start else longest_s
    return min(packet.properties.session_expiry_s or 0, longest_s)

"""What can be wrong with the bytes of an MQTT client."""

from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import DecodeError


class MalformedPacket(DecodeError):
    """A packet breaks the protocol; the reason is what the client is told before the end."""

    def __init__(self, message: str, reason: Reason = Reason.MALFORMED_PACKET) -> None:
        super().__init__(message)
        self.reason = reason


class ProtocolError(MalformedPacket):
    """A packet is well formed, and must not have come, or not with these contents."""

    def __init__(self, message: str, reason: Reason = Reason.PROTOCOL_ERROR) -> None:
        super().__init__(message, reason)

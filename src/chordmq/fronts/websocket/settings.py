"""What can be set for the WebSocket gateway, which shares its port with HTTP."""

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketSettings:
    """How much the gateway's clients may ask for."""

    message_size_max: int = 4 * 1024 * 1024
    """Bytes that a message from a client may have."""
    subscriptions_max: int = 100
    """Subscriptions of one client."""
    ping_interval_s: float = 20.0
    """How often a client is asked for a sign of life; one that gives none for three intervals is
    disconnected."""
    origins: str = ""
    """Sites besides the node's own whose pages may connect, with commas: `https://example.com`;
    `*` for all."""

"""What can be set for the provider's binary protocol."""

from chordmq.dataclass import dataclass
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings(ListenerSettings):
    """Where the front listens, and what its clients may ask for."""

    port: int = 9081
    connections_max: int = 10_000
    frame_size_max: int = 16 * 1024 * 1024
    idle_timeout_s: float = 30.0
    """How long a client may be silent; its HEARTBEAT is a sign of life like any other frame."""
    heartbeat_interval_s: float = 10.0
    """How often the node gives a sign of life."""
    credit_max: int = 10_000
    """Messages that a consumer may have without having acknowledged them, at most."""

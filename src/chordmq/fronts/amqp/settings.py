"""What can be set for the AMQP front."""

from chordmq.dataclass import dataclass
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpSettings(ListenerSettings):
    """Where AMQP clients connect, and how much they may ask for."""

    port: int = 5672
    idle_timeout_s: float = 3600.0
    virtual_hosts: str = "/"
    """Virtual hosts that clients may open, with commas; each but `/` is a prefix of topic names."""
    heartbeat_s: int = 60
    """How often each side shows that it is alive, unless the client wants it more often."""
    channels_max: int = 2047
    """Channels of one connection."""
    frame_max: int = 131_072
    """Bytes of one frame."""
    message_size_max: int = 16 * 1024 * 1024
    """Bytes of one message."""
    unacknowledged_max: int = 100_000
    """Messages that one channel may hold without having acknowledged them."""

    @property
    def vhosts(self) -> tuple[str, ...]:
        """Return the virtual hosts; the root is always there."""
        names = filter(None, (name.strip() for name in self.virtual_hosts.split(",")))
        return tuple(dict.fromkeys(("/", *names)))

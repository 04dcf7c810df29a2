"""What can be set for the plain length-prefixed protocol."""

from typing import Literal

from chordmq.dataclass import dataclass
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedSettings(ListenerSettings):
    """Where the front listens, and how it delivers."""

    port: int = 9080
    connections_max: int = 1_000
    frame_size_max: int = 1024 * 1024
    topic: str = "messages"
    """The topic of clients that name none; made with one partition when first used."""
    delivery_mode: Literal["broadcast", "queue"] = "broadcast"
    """Whether every consumer gets each message, or one of them."""
    consumers_max: int = 10
    """Consumers at the same time; more are refused."""
    consumer_buffer_size: int = 10_000
    """Messages that a consumer may have without having acknowledged them."""
    when_full: Literal["wait", "drop"] = "wait"
    """What happens when a broadcast consumer's buffer is full: the log waits for it, or messages
    are dropped for it, counted and warned of."""
    queue_max: int = 0
    """Messages of a queue that nobody has processed, above which producers are refused; 0 is no
    limit."""

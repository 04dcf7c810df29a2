"""What every front must be able to do for the matrix: put a message in, and get messages out."""

from typing import NamedTuple, Protocol

from tests.running_node import RunningNode


class Sample(NamedTuple):
    """A message as its sender means it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Door(Protocol):
    """One front, used through a client of its own kind."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        """Send a message, and return when the node has it."""
        ...

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        """Return the first messages of a topic of one partition."""
        ...

    def carried(self, sample: Sample) -> Sample:
        """Return what the front's documented losses leave of a message."""
        ...

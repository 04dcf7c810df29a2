"""What every front must be able to do for the matrix: put a message in, and get messages out."""

from typing import Any, NamedTuple, Protocol

from tests.running_node import RunningNode


class Sample(NamedTuple):
    """A message as its sender means it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Lost:
    """Stands for what a front has no place for, as its loss table says; equal to what was there."""

    def __init__(self, *equals: bytes | None) -> None:
        """Be equal to these; to everything if none is given."""
        self._equals = equals

    def __eq__(self, other: object) -> bool:
        return not self._equals or other in self._equals

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Lost{self._equals}"


LOST: Any = Lost()


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

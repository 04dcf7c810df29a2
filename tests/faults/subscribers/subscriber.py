"""What every front that pushes must be able to do for the proofs: consume, and keep a place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Wanted(NamedTuple):
    """What a consumer is started with."""

    ports: dict[str, int]
    """Where the node listens, by front."""
    topic: str
    name: str
    """Of the consumer (own index) or of the group (shared index)."""
    kind: str
    """`own` or `shared`."""
    memory: str
    """A file for clients that keep their place themselves."""


class Subscriber(Protocol):
    """One consumer, which begins with the oldest message; connected when it is made."""

    def __init__(self, wanted: Wanted) -> None: ...

    def messages(self) -> Iterator[tuple[Any, bytes]]:
        """Yield messages as they come, each with what `processed` needs to know."""
        ...

    def processed(self, token: Any) -> None:
        """Tell the node, or remember, that a message need not come again."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


def remember(file: str, text: str) -> None:
    """Write a text so that it is there whole, or not at all, whenever the program is killed."""
    path = Path(file)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)

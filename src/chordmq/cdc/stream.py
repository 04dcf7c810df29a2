"""What every kind of database can do for the runner: open at a position, and tell changes."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from chordmq.cdc.change import Burst, Position
from chordmq.cdc.settings import Source
from chordmq.clock import Clock


class Stream(Protocol):
    """An open source."""

    def bursts(self) -> AsyncGenerator[Burst, None]:
        """Tell changes for ever, in their order; each burst says how far the source is then."""
        ...

    async def confirm(self, position: Position) -> None:
        """Take note that everything up to a position is stored for good."""
        ...

    async def lag(self) -> Mapping[str, float]:
        """Return what the database says of how far we are behind, by name."""
        ...


Open = Callable[[Source, Position | None, Clock], AbstractAsyncContextManager[Stream]]
"""Opens a source at a position, or from the beginning.

Raises SourceUnavailable, SourceRefused or PositionLost.
"""


def opener(source: Source) -> Open:
    """Return how a source of this kind is opened; its driver is loaded only now."""
    if source.kind == "postgresql":
        from chordmq.cdc.postgres.source import opened as postgres

        return postgres
    from chordmq.cdc.mongodb.source import opened as mongodb

    return mongodb

"""What tests do with a node over any procedure-call front, and what they get to see."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

SCHEMAS = Path(__file__).resolve().parents[3] / "schema"
TIMEOUT_S = 60.0

Address = tuple[str, int]
Headers = tuple[tuple[str, bytes | None], ...]


class Refused(Exception):
    """The node has refused a call; `error` is the name of its error."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.error = error


class Row(NamedTuple):
    """A message, as sent or received."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    partition: int = -1
    offset: int = -1
    name: str = ""
    deliveries: int = 0


class Login(NamedTuple):
    """Who a client is, and how it gets in."""

    token: str = ""
    user: str = ""
    password: str = ""
    client: str = "tests"
    authority: Path | None = None
    """The file of the certificate authority, where the node speaks TLS."""


class Subscription(Protocol):
    """What tests do with a subscription."""

    positions: dict[str, str]
    gaps: list[tuple[int, int, int]]

    async def take(self, count: int) -> list[Row]:
        """Return so many messages, and no fewer."""
        ...

    async def is_silent(self, seconds: float) -> bool:
        """Return whether no message comes in a time."""
        ...

    async def ended(self) -> Refused:
        """Return why the node has ended the subscription."""
        ...

    async def credit(self, count: int) -> None:
        """Let more come."""
        ...

    async def acknowledge(self, topic: str, row: Row, outcome: str = "accept") -> None:
        """Say what became of a message."""
        ...

    async def commit(self, topic: str, position: str) -> None:
        """Keep the place."""
        ...

    async def close(self) -> None:
        """End the subscription."""
        ...


class Client(Protocol):
    """What tests do with a node."""

    async def publish(self, topic: str, rows: Sequence[Row]) -> list[tuple[int, int]]:
        """Store messages and return their places."""
        ...

    async def stream(self, topic: str, batches: Sequence[Sequence[Row]]) -> int:
        """Store messages in a stream, and return how many were stored."""
        ...

    async def subscribe(self, topic: str, **wanted: Any) -> Subscription:
        """Subscribe: own, shared, start (earliest, latest or a time), positions, credit."""
        ...

    async def commit(self, index: str, topic: str, position: str) -> None:
        """Keep the place of a named index."""
        ...

    async def committed(self, index: str, topic: str) -> str:
        """Return the place of a named index."""
        ...

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        """Make a topic, and return how many partitions it has."""
        ...

    async def topics(self) -> list[str]:
        """Return the topics that the client may see."""
        ...

    async def end_offsets(self, name: str) -> list[int]:
        """Return where the partitions of a topic end."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


class Received:
    """What has come of a subscription."""

    def __init__(self, positions: Mapping[str, str]) -> None:
        self.positions = dict(positions)
        self.gaps: list[tuple[int, int, int]] = []
        self._rows: asyncio.Queue[Row | Refused] = asyncio.Queue()
        self._end: Refused | None = None

    def came(self, topic: str, rows: Sequence[Row], position: str) -> None:
        if position:
            self.positions[topic] = position
        for row in rows:
            self._rows.put_nowait(row)

    def has_ended(self, error: Refused) -> None:
        self._rows.put_nowait(error)

    async def take(self, count: int) -> list[Row]:
        rows: list[Row] = []
        async with asyncio.timeout(TIMEOUT_S):
            while len(rows) < count:
                row = await self._rows.get()
                if isinstance(row, Refused):
                    raise row
                rows.append(row)
        return rows

    async def is_silent(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._rows.get()
        except TimeoutError:
            return True
        return False

    async def ended(self) -> Refused:
        async with asyncio.timeout(TIMEOUT_S):
            while not isinstance(row := await self._rows.get(), Refused):
                pass
        return row

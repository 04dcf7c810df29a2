"""What every client has in common: it is open for the length of an `async with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Opened(ABC):
    """Opens itself where a block begins, and closes where that ends, however it ends."""

    async def __aenter__(self) -> Self:
        """Open it; whatever that raises, the block is not entered."""
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self._close(error)

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self, error: BaseException | None) -> None:
        """Close after what has ended the block, or None if it ended in order."""

"""Room for more messages: who has none waits until some were accepted."""

import asyncio


class Room:
    """Wakes the reader of an inbox when what it holds becomes less."""

    def __init__(self) -> None:
        self._made = asyncio.Event()

    def make(self) -> None:
        """Wake who waits."""
        self._made.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when room was made since the call, or the time is over."""
        self._made.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._made.wait()
        except TimeoutError:
            return

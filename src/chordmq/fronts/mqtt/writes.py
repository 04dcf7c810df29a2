"""What goes out in a turn of the event loop: one write for each client that gets something."""

import asyncio
from typing import Protocol


class Writer(Protocol):
    """A connection that has something to send."""

    def flush(self) -> None:
        """Send it."""
        ...

    def failed(self, fault: Exception) -> None:
        """Close because of a fault."""
        ...


class Writes:
    """Who has something to send; all of them do so at the end of the turn."""

    def __init__(self) -> None:
        self._waiting: list[Writer] = []

    def add(self, connection: Writer) -> None:
        """Have a connection send what it has, once."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write_all)
        self._waiting.append(connection)

    def _write_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            try:
                connection.flush()
            except Exception as fault:  # noqa: BLE001  one client's fault is not the others'
                connection.failed(fault)

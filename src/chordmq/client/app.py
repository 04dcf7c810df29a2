"""A set of message handlers that run together: the application of `chordmq run`."""

import asyncio
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chordmq.client.backoff import Backoff
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import ClientError, Closed, DeliveryTimedOut
from chordmq.client.handlers import MessageFunction, MessageHandler, consumer
from chordmq.client.worker import Counts, Worker
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing

log = get_logger(__name__)

OUTAGES = (Closed, DeliveryTimedOut)
"""What a broker that has gone away can lead to, besides what may be tried again."""


class ConsumerApp:
    """Handlers, and what runs them; one that stops with an error stops the others, too."""

    def __init__(self, *handlers: MessageHandler) -> None:
        self.handlers = list(handlers)
        self._workers: dict[str, Worker] = {}
        self._stopping = asyncio.Event()
        self.tracing: Tracing | None = None
        """What records how messages are processed, if anything does."""

    def consumer(
        self, topic: str, group: str, **more: Any
    ) -> Callable[[MessageFunction], MessageHandler]:
        """Have a function process messages, as `chordmq.client.handlers.consumer` does."""

        def decorate(function: MessageFunction) -> MessageHandler:
            handler = consumer(topic, group, **more)(function)
            self.handlers.append(handler)
            return handler

        return decorate

    @property
    def counts(self) -> dict[str, Counts]:
        """Return what each handler has done, by its name."""
        return {name: worker.counts for name, worker in self._workers.items()}

    async def serve(self, bootstrap: str, connection: ConnectionSettings | None = None) -> None:
        """Process messages until `stop`; raise Stopped when a message stands in the way.

        A broker that is not there at the beginning is an error; one that goes away is waited for.
        """
        if not self.handlers:
            raise ValueError("the application has no consumers")
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self._keep_running(handler, bootstrap, connection))
                    for handler in self.handlers
                ]
                # Before Python 3.13, a failure while the block is being left marks our caller's
                # task as cancelled for good, and its next time-out as a cancellation.
                await asyncio.wait(running)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _keep_running(
        self, handler: MessageHandler, bootstrap: str, connection: ConnectionSettings | None
    ) -> None:
        backoff = Backoff(random.Random())  # noqa: S311 (no secret)
        has_begun, counts = False, Counts()
        while not self._stopping.is_set():
            worker = self._workers[handler.name] = Worker(handler, bootstrap, connection)
            worker.counts = counts
            if self.tracing is not None:
                worker.trace(self.tracing)
            try:
                await worker.run()
            except ClientError as error:
                has_begun |= worker.has_begun
                if not (has_begun and (error.retriable or isinstance(error, OUTAGES))):
                    raise
                log.warning("broker lost", consumer=handler.name, error=str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff.next_s())

    def stop(self) -> None:
        """Finish what is being processed, commit it and end."""
        self._stopping.set()
        for worker in self._workers.values():
            worker.stop()

    async def serve_until_signal(
        self, bootstrap: str, connection: ConnectionSettings | None = None
    ) -> None:
        """Process messages until the process is told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self.serve(bootstrap, connection)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(ValueError):
                    loop.remove_signal_handler(number)


def app_in(module: ModuleType, name: str = "") -> ConsumerApp:
    """Return the application of this name in a module; without one, of all handlers there."""
    found = getattr(module, name, None) if name else None
    if isinstance(found, ConsumerApp):
        return found
    if isinstance(found, MessageHandler):
        return ConsumerApp(found)
    if name:
        raise ValueError(f"{module.__name__} has no ConsumerApp called {name!r}")
    handlers = [one for one in vars(module).values() if isinstance(one, MessageHandler)]
    if not handlers:
        raise ValueError(f"{module.__name__} has no function with @consumer")
    return ConsumerApp(*handlers)

"""Runs applications inside a node, beside its own work: one that fails is started again."""

import asyncio
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.client.app import ConsumerApp, app_in
from chordmq.client.backoff import Backoff
from chordmq.client.connection import ConnectionSettings
from chordmq.client.hosting_settings import AppsSettings
from chordmq.client.security import Security
from chordmq.errors import CannotStart
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing

log = get_logger(__name__)

BACKOFF_MOST_S = 30.0


class Hosting:
    """The applications of a node; they reach it as any client does."""

    def __init__(
        self, settings: AppsSettings, bootstrap: str, tracing: "Tracing | None" = None
    ) -> None:
        self._bootstrap = bootstrap
        security = Security(user=settings.user, password=settings.password, tls_ca=settings.tls_ca)
        self._connection = ConnectionSettings(security=security)
        self._apps = {name: _load(name) for name in settings.names}
        for app in self._apps.values():
            app.tracing = tracing
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run all applications until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            for name, app in self._apps.items():
                tasks.create_task(self._run(name, app))

    def stop(self) -> None:
        """Let all applications finish what they are at, and end."""
        self._stop.set()
        for app in self._apps.values():
            app.stop()

    async def _run(self, name: str, app: ConsumerApp) -> None:
        backoff = Backoff(random.Random(), most_s=BACKOFF_MOST_S)  # noqa: S311 (no secret)
        while not self._stop.is_set():
            try:
                await app.serve(self._bootstrap, self._connection)
            except Exception as error:  # noqa: BLE001 (a user's program must not end the node)
                log.error("application failed", app=name, error=f"{type(error).__name__}: {error}")
                await self._wait(backoff.next_s())

    async def _wait(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._stop.wait()
        except TimeoutError:
            return


def _load(place: str) -> ConsumerApp:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.append(directory)
    module, _, name = place.partition(":")
    try:
        return app_in(import_module(module), name)
    except (ImportError, ValueError) as error:
        raise CannotStart(f"apps.run: {place!r} cannot be run: {error}") from None

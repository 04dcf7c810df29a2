"""A node where clients log in, with users who are there from its first start."""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from chordmq.broker.security.users import Users
from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.storage.metadata.database import Database
from tests.running_node import RunningNode

ADMIN = "admin"


@contextmanager
def secured_node(
    directory: Path, passwords: Mapping[str, str], mechanisms: str = "PLAIN"
) -> Iterator[RunningNode]:
    """Run a node with users of these passwords; `admin` may do everything, the others nothing."""
    node = RunningNode(directory, {"auth.mechanisms": mechanisms})
    node.data.mkdir(parents=True)
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, as Playwright's does
        thread.submit(asyncio.run, _furnish(node.data / "meta.db", passwords)).result()
    try:
        node.start()
        yield node
    finally:
        node.close()


async def _furnish(path: Path, passwords: Mapping[str, str]) -> None:
    with closing(Database(path)) as database:
        users = Users(Image.local(database, SystemClock()), SystemClock())
        for name, password in passwords.items():
            await users.add(name, password, is_admin=name == ADMIN)

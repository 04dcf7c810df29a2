"""Where devices are kept: in the compacted topic `__devices`, unless a MongoDB is named."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.errors import ChordMQError, NotCoordinator
from chordmq.iot.entries import Entry, read, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOPIC = "__devices"
NAME = "devices"

DEVICES_TOPIC: InternalTopic[Entry] = InternalTopic(
    name=TOPIC,
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 2**20),
        "max.message.bytes": str(100 * 2**20),
    },
    partitions=lambda settings: 1,
    write=write,
    read=read,
)


class Store(Protocol):
    """Keeps entries by key; one service at a time writes."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Take writes for the length of a block."""
        ...

    async def is_mine(self) -> bool:
        """Return whether it is this node that looks after devices now."""
        ...

    @property
    def leader(self) -> int:
        """Return the number of the node that does, or -1."""
        ...

    async def load(self) -> Sequence[Entry]:
        """Return all that is kept, in the order in which it came to be."""
        ...

    async def save(self, entries: Sequence[Entry]) -> None:
        """Keep entries, all or none; raise NotCoordinator if another node does so now."""
        ...


class LogStore:
    """Keeps entries in a topic of one partition; whoever leads it looks after devices."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._log = InternalLog(host, DEVICES_TOPIC)
        self._epoch = -1
        """The leader epoch in which the log was read; another node may write in others."""

    @asynccontextmanager
    async def opened(self) -> "AsyncIterator[None]":
        """Take writes for the length of a block."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            try:
                yield
            finally:
                self._log.close()

    async def is_mine(self) -> bool:
        """Return whether this node leads the topic, which is made if it is not there."""
        await self._log.ensure()
        return self._host.topics.get(TOPIC).partitions[0].is_leader

    @property
    def leader(self) -> int:
        """Return the number of the node that leads the topic, or -1."""
        topic = self._host.topics.find(TOPIC)
        return -1 if topic is None else self._host.topics.state(topic, 0).leader

    async def load(self) -> Sequence[Entry]:
        """Return all entries of the log."""
        self._epoch = self._host.topics.get(TOPIC).partitions[0].leader_epoch
        return [entry async for batch in self._log.replay() for entry in batch.entries]

    async def save(self, entries: Sequence[Entry]) -> None:
        """Append entries as one batch."""
        if self._host.topics.get(TOPIC).partitions[0].leader_epoch != self._epoch:
            raise NotCoordinator("another node may have written meanwhile")
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        self._log.append(NAME, entries, done)
        await written

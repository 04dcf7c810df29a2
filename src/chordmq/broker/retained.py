"""Retained messages: the newest message of each name that was published to be kept.

The topic `__retained` is compacted; its keys are names, its values MessagePack. All are kept in
memory as well, in a tree by the levels of their names.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from chordmq.broker.internal_log import Host, InternalLog, InternalTopic, LoggedBatch
from chordmq.broker.subscriptions import ONE, REST, SEPARATOR
from chordmq.broker.write_queue import Done
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    DecodeError,
    NotCommittedInTime,
    NotCoordinator,
    NotLeader,
    PolicyViolation,
)
from chordmq.logs import get_logger
from chordmq.records.record import Headers

if TYPE_CHECKING:
    from chordmq.broker.bounds import Bounds

log = get_logger(__name__)

CATCH_UP_S = 2.0
ANOTHER_TIME = (NotCoordinator, CoordinatorNotAvailable, NotCommittedInTime)
ATTEMPTS = 150
ATTEMPT_INTERVAL_S = 0.2


class Retained(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message that new subscribers get at once; without a payload there is none any more."""

    name: str
    payload: bytes = b""
    qos: int = 0
    timestamp_ms: int = 0
    expires_ms: int | None = None
    headers: Headers = ()


def write(message: Retained) -> tuple[bytes, bytes | None]:
    """Return a record's key and value."""
    return message.name.encode(), msgspec.msgpack.encode(message) if message.payload else None


def read(key: bytes, value: bytes | None) -> Retained | None:
    """Return what a record says; raise DecodeError if it makes no sense."""
    if value is None:
        return Retained(name=key.decode(errors="replace"))
    try:
        return msgspec.msgpack.decode(value, type=Retained)
    except msgspec.DecodeError as error:
        raise DecodeError(f"a retained message: {error}") from None


RETAINED_TOPIC: InternalTopic[Retained] = InternalTopic(
    name="__retained",
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 2**20),
        "max.message.bytes": str(100 * 2**20),
    },
    partitions=lambda settings: 1,
    write=write,
    read=read,
    is_written_anywhere=True,
)


class _Level:
    """What follows one level of a name: deeper levels, and the message that ends here."""

    __slots__ = ("below", "message")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.message: Retained | None = None


class RetainedTree:
    """Messages by name; finding costs by what a filter matches, not by how many there are."""

    def __init__(self) -> None:
        self._root = _Level()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, message: Retained) -> None:
        """Keep a message in the place of the one before; one without a payload removes it."""
        if not message.payload:
            self._remove(message.name)
            return
        level = self._root
        for text in message.name.split(SEPARATOR):
            level = level.below.setdefault(text, _Level())
        self._count += level.message is None
        level.message = message

    def get(self, name: str) -> Retained | None:
        """Return the message of a name, if there is one."""
        level: _Level | None = self._root
        for text in name.split(SEPARATOR):
            level = level.below.get(text) if level is not None else None
        return level.message if level is not None else None

    def matching(self, wanted: str) -> Iterator[Retained]:
        """Yield the messages whose names a filter matches."""
        levels = wanted.split(SEPARATOR)
        yield from _found(self._root, levels, 0)

    def _remove(self, name: str) -> None:
        path = [self._root]
        levels = name.split(SEPARATOR)
        for text in levels:
            below = path[-1].below.get(text)
            if below is None:
                return
            path.append(below)
        self._count -= path[-1].message is not None
        path[-1].message = None
        for above, text in zip(reversed(path[:-1]), reversed(levels), strict=True):
            if above.below[text].below or above.below[text].message is not None:
                return
            del above.below[text]


def _found(level: _Level, levels: list[str], at: int) -> Iterator[Retained]:
    wanted = levels[at] if at < len(levels) else ""
    if (at == len(levels) or wanted == REST) and level.message is not None:
        yield level.message
    if at == len(levels):
        return
    if wanted in (ONE, REST):
        following = at if wanted == REST else at + 1
        for text, below in level.below.items():
            if at or not text.startswith("$"):
                yield from _found(below, levels, following)
    elif wanted in level.below:
        yield from _found(level.below[wanted], levels, at + 1)


class RetainedHost(Host, Protocol):
    """What retained messages need of the broker they belong to."""

    @property
    def bounds(self) -> "Bounds":
        """Return what says where partitions begin and end."""
        ...


class RetainedMessages:
    """Keeps retained messages in a log, and all of them in memory."""

    def __init__(self, host: "RetainedHost") -> None:
        self._host = host
        self._log = InternalLog(host, RETAINED_TOPIC)
        self.tree = RetainedTree()
        self.watchers: list[Callable[[Retained], None]] = []
        """Told of all messages that are kept at any node of a cluster; a node alone knows."""
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Read the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            try:
                await self._log.follow(self._apply, self._ready)
                await asyncio.Event().wait()
            finally:
                self.loaded.clear()
                self._log.close()

    def look_again(self) -> None:
        """Take note that the log may have come, or another copy of it."""
        self._log.look_again()

    async def catch_up(self) -> None:
        """Wait until this node knows what was kept at others, but not for long."""
        topic = self._host.topics.find(RETAINED_TOPIC.name)
        elsewhere = [one for one in topic.partitions if not one.is_leader] if topic else ()
        if elsewhere:
            try:
                extents = await self._host.bounds.of(elsewhere, patience_s=CATCH_UP_S)
            except NotLeader:
                return  # what is known has to do
            ends = {partition.index: extent.watermark for partition, extent in extents.items()}
            await self._log.applied(ends, CATCH_UP_S)

    def _apply(self, batch: LoggedBatch[Retained]) -> None:
        for message in batch.entries:
            self.tree.set(message)
            for watcher in self.watchers:
                watcher(message)

    def _ready(self) -> None:
        if not self.loaded.is_set():
            self.loaded.set()
            log.info("retained messages loaded", messages=len(self.tree))

    def keep(self, message: Retained, count_max: int) -> asyncio.Future[None]:
        """Keep a message, or drop that of its name; the future is done when the log has it."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        self.keep_then(message, count_max, done)
        return written

    def keep_then(self, message: Retained, count_max: int, done: Done) -> None:
        """Keep a message, or drop that of its name, and call `done` when the log has it.

        New subscribers get it from now on: who publishes and then subscribes finds it.
        """
        if not self.loaded.is_set():
            raise CoordinatorLoading("retained messages are being read from the log")
        is_new = message.payload and self.tree.get(message.name) is None
        if is_new and len(self.tree) >= count_max:
            raise PolicyViolation(f"{count_max} names have a retained message, which is the limit")
        if not self._host.topics.is_alone:
            done = partial(self._kept, message, done, ATTEMPTS)
        self._log.append(message.name, [message], done)
        self.tree.set(message)

    def _kept(
        self, message: Retained, done: Done, attempts: int, error: ChordMQError | None
    ) -> None:
        """Tell what became of a message; one that came while the leader changed is tried again."""
        if not attempts or not isinstance(error, ANOTHER_TIME):
            done(error)
            return
        again = partial(self._kept, message, done, attempts - 1)
        loop = asyncio.get_running_loop()
        loop.call_later(ATTEMPT_INTERVAL_S, self._append_again, message, again)

    def _append_again(self, message: Retained, again: Done) -> None:
        try:
            self._log.append(message.name, [message], again)
        except ChordMQError:
            again(None)  # the node stops; nobody is left to be told

"""Reads records: from chosen partitions, or from those that a group gives to this consumer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Self

from chordmq.client.cluster import Cluster
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, ClientError
from chordmq.client.fetcher import Chunk, Fetcher, FetchSettings
from chordmq.client.membership import MOVED, GroupSettings, Membership
from chordmq.client.offsets import (
    EARLIEST,
    Owner,
    Start,
    TopicPartition,
    commit_offsets,
    fetch_committed,
)
from chordmq.client.opened import Opened
from chordmq.dataclass import dataclass
from chordmq.records.record import Headers

if TYPE_CHECKING:
    from chordmq.encryption.envelope import Envelope

REBALANCE_CHECK_S = 0.5
COMMIT_PATIENCE_S = 10.0


class Message(NamedTuple):
    """A record and where it was found."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What a consumer reads, and how it remembers."""

    group: GroupSettings | None = None
    start: Start = EARLIEST
    """Where a group begins that has committed nothing."""
    auto_commit_s: float | None = 5.0
    """How often a group's position is committed; None leaves it to `commit`."""
    fetch: FetchSettings = field(default_factory=FetchSettings)
    encryption: "Envelope | None" = None
    """Decrypts the values of all records, and refuses those that are plain."""


class Consumer(Opened):
    """Reads records; use it as `async with Consumer(...) as consumer`, then `async for`.

    A record counts as processed when the next one is asked for, or when `commit` is called, or when
    the block is left without an error. So a crash repeats records but never skips one.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: ConsumerSettings | None = None,
        connection: ConnectionSettings | None = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, connection)
        self.settings = settings or ConsumerSettings()
        self._fetcher = Fetcher(self.cluster, self.settings.fetch, self.settings.encryption)
        self.before_rejoin: Callable[[], Awaitable[None]] | None = None
        """Called before the partitions are given back because the group moves on."""
        self._membership: Membership | None = None
        self._assigned: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._chunk: Chunk | None = None
        self._place = 0
        self._commit_at_s = 0.0
        self._tasks = asyncio.TaskGroup()
        self._beating: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        """Reach a broker, or raise CannotConnect."""
        await self.cluster.open()
        await self._tasks.__aenter__()

    async def _close(self, error: BaseException | None) -> None:
        """Commit what was processed, leave the group and close."""
        try:
            if self._membership is not None:
                if error is None and self.settings.auto_commit_s is not None:
                    await self.commit()
                await self._membership.leave()
        finally:
            self.cluster.close()
            if self._beating is not None:
                self._beating.cancel()
            await self._tasks.__aexit__(None, None, None)

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads now."""
        return list(self._assigned)

    async def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read exactly these partitions; raise BrokerRefused where one does not exist."""
        for topic, index in starts:
            await self.cluster.leader(topic, index)
        self._take_over(starts)
        self._positions = await self._fetcher.resolve()

    async def assign_topic(
        self, topic: str, start: Start = EARLIEST, partitions: Iterable[int] | None = None
    ) -> None:
        """Read a topic, or some of its partitions, from one kind of place."""
        info = await self.cluster.topic(topic)
        indexes = range(len(info.partitions)) if partitions is None else partitions
        await self.assign({(topic, index): start for index in indexes})

    async def subscribe(self, *topics: str) -> None:
        """Read these topics as a member of the group named in the settings."""
        assert self.settings.group is not None, "subscribe needs a group in the settings"
        assert self._membership is None, "a consumer subscribes once"
        for topic in topics:
            await self.cluster.topic(topic)
        self._membership = Membership(self.cluster, self.settings.group, topics)
        self._beating = self._tasks.create_task(self._membership.beat())

    async def seek(self, topic: str, partition: int, start: Start) -> None:
        """Go on reading an assigned partition from another place."""
        if self._chunk and (self._chunk.topic, self._chunk.partition) == (topic, partition):
            self._chunk = None
        self._fetcher.seek(topic, partition, start)
        self._positions = self._positions | {
            pair: offset
            for pair, offset in (await self._fetcher.resolve()).items()
            if pair == (topic, partition)
        }

    def position(self, topic: str, partition: int) -> int:
        """Return the offset of the record that comes next, behind what is not shown to readers."""
        chunk = self._chunk
        if chunk and self._place < len(chunk.records) and chunk[:2] == (topic, partition):
            return self._positions[topic, partition]
        return self._fetcher.offset(topic, partition)

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the end of the partition as last seen, or -1 before the first answer."""
        return self._fetcher.high_watermark(topic, partition)

    async def poll(self, timeout_s: float = 1.0) -> Chunk | None:
        """Return the next records of one partition, or None when none came in time."""
        clock = self.cluster.clock
        deadline_s = clock.monotonic_s() + timeout_s
        while True:
            await self.keep_up()
            left_s = max(0.0, deadline_s - clock.monotonic_s())
            slice_s = left_s if self._membership is None else min(left_s, REBALANCE_CHECK_S)
            chunk = await self._fetcher.poll(slice_s)
            if chunk is not None:
                self._positions[chunk.topic, chunk.partition] = chunk.next_offset
                return chunk
            if left_s <= slice_s:
                return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            await self.keep_up()
            chunk = self._chunk
            if chunk is not None and self._place < len(chunk.records):
                return self._hand_out(chunk)
            self._chunk, self._place = await self.poll(REBALANCE_CHECK_S), 0
            if self._chunk is not None:
                # Handed out one by one: the position follows each record, not the whole chunk.
                first = self._chunk.records[0]
                self._positions[self._chunk.topic, self._chunk.partition] = first.offset

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the offsets, or everything handed out so far."""
        assert self.settings.group is not None, "commit needs a group in the settings"
        group = self.settings.group.group
        wanted = dict(self._positions if offsets is None else offsets)
        changed = {pair: at for pair, at in wanted.items() if self._committed.get(pair) != at}
        if not changed:
            return
        owner = self._membership.owner if self._membership else Owner()

        async def attempt() -> None:
            await commit_offsets(await self.cluster.coordinator(group), group, changed, owner)

        await self.cluster.retrying(attempt, MOVED, COMMIT_PATIENCE_S)
        self._committed |= changed

    async def committed(self) -> dict[TopicPartition, int]:
        """Return what the group has committed for the assigned partitions."""
        assert self.settings.group is not None, "committed needs a group in the settings"
        group = self.settings.group.group

        async def attempt() -> dict[TopicPartition, int]:
            coordinator = await self.cluster.coordinator(group)
            return await fetch_committed(coordinator, group, self._assigned)

        return await self.cluster.retrying(attempt, MOVED, COMMIT_PATIENCE_S)

    def _hand_out(self, chunk: Chunk) -> Message:
        record = chunk.records[self._place]
        self._place += 1
        is_last = self._place == len(chunk.records)
        following = chunk.next_offset if is_last else record.offset + 1
        self._positions[chunk.topic, chunk.partition] = following
        return Message(chunk.topic, chunk.partition, *record)

    async def keep_up(self) -> None:
        """Rejoin when the group moves on, and commit when it is time; `poll` does so, too."""
        if self._membership is None:
            return
        if self._membership.is_stale:
            await self._rejoin(self._membership)
        interval_s = self.settings.auto_commit_s
        now_s = self.cluster.clock.monotonic_s()
        if interval_s is not None and now_s >= self._commit_at_s:
            self._commit_at_s = now_s + interval_s
            await self._commit_if_possible()

    async def _rejoin(self, membership: Membership) -> None:
        if self._assigned and self.before_rejoin is not None:
            await self.before_rejoin()
        if self._assigned and self.settings.auto_commit_s is not None:
            await self._commit_if_possible()
        self._take_over({})
        self._assigned = await membership.join()
        committed = await self.committed()
        self._take_over(
            {
                pair: Start(committed[pair]) if pair in committed else self.settings.start
                for pair in self._assigned
            }
        )
        self._committed = committed
        self._positions = await self._fetcher.resolve()
        self._commit_at_s = self.cluster.clock.monotonic_s() + (self.settings.auto_commit_s or 0.0)

    async def _commit_if_possible(self) -> None:
        try:
            await self.commit()
        except BrokerRefused:
            # The group has moved on without us; what we read is read again by the new owner.
            assert self._membership is not None
            self._membership.is_stale = True
        except ClientError:
            return  # the next interval tries again

    def _take_over(self, starts: Mapping[TopicPartition, Start]) -> None:
        self._assigned = list(starts)
        self._positions = {}
        self._committed = {}
        self._chunk = None
        self._fetcher.assign(starts)

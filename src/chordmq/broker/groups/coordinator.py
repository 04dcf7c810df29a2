"""The group coordinator: the groups of all protocols, and the offsets that they have committed."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial

from chordmq.broker.alarm import Alarm
from chordmq.broker.groups.changeover import Changeover
from chordmq.broker.groups.classic_coordinator import ClassicCoordinator
from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.consumer_coordinator import ConsumerCoordinator
from chordmq.broker.groups.consumer_groups import (
    JOINING,
    Beat,
    Beaten,
    ConsumerGroup,
)
from chordmq.broker.groups.consumer_image import Image
from chordmq.broker.groups.consumer_protocol import CONSUMER
from chordmq.broker.groups.expiry import idle_since
from chordmq.broker.groups.log import GROUP_TOPIC, TOPIC
from chordmq.broker.groups.membership import (
    GroupSnapshot,
    Identity,
    Join,
    Joined,
    Leaver,
    Sync,
    Synced,
)
from chordmq.broker.groups.offsets import (
    Commit,
    CommittedOffset,
    OffsetKey,
    OffsetRecord,
    Offsets,
    Place,
)
from chordmq.broker.groups.records import GroupLogRecord, GroupRecord
from chordmq.broker.groups.settings import GroupSettings
from chordmq.broker.internal_log import Host, InternalLog
from chordmq.broker.producers import Incarnation
from chordmq.broker.write_queue import Done
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribed,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    RebalanceInProgress,
    UnknownMember,
)
from chordmq.logs import get_logger
from chordmq.records.marker import Marker

log = get_logger(__name__)

EXPIRY_INTERVAL_S = 600
COMMIT_TIMEOUT_S = 5.0
"""How long a commit waits for the copies of the log, as in Kafka; then its outcome is not known."""
NAME_BYTES_MAX = 2**15 - 1
"""Names and texts longer than this do not fit the log's format."""
_MINUTE_MS = 60_000
OUTSIDER = Identity()


class GroupCoordinator:
    """All groups of the node.

    Nothing is answered before it is in the log, and every deadline of every group shares one timer
    of the event loop, so that idle members cost nothing but memory.
    """

    def __init__(self, host: Host, settings_of: Callable[[str], GroupSettings]) -> None:
        self._host = host
        self._log = InternalLog(host, GROUP_TOPIC)
        self._offsets = Offsets(min(host.settings.offset_metadata_max_bytes, NAME_BYTES_MAX))
        self._alarm = Alarm(host.clock, self._ring)
        self._classic = ClassicCoordinator(
            host, self._log, self._alarm, lambda group_id: bool(self._offsets.of_group(group_id))
        )
        self._consumers = ConsumerCoordinator(host, self._log, self._alarm, settings_of)
        self._changeover = Changeover(host, self._log, self._alarm, self._classic, self._consumers)
        self.loaded = asyncio.Event()
        """Set once the log is read; until then clients are asked to try again."""

    async def run(self) -> None:
        """Read the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            tasks.create_task(self._log.serve(self._load, self._unload, self._ready))
            try:
                while True:
                    await asyncio.sleep(EXPIRY_INTERVAL_S)
                    self.expire_offsets()
            finally:
                self._stop()

    async def consumer_heartbeat(self, group_id: str, beat: Beat) -> Beaten:
        """Take a heartbeat of the consumer protocol; a classic group that gets one goes over."""
        self._check(group_id)
        _check_lengths(beat.member_id, beat.instance_id or "", beat.client_id, *(beat.topics or ()))
        await self._changeover.ended(group_id)
        group = self._consumers.groups.get(group_id)
        if group is None:
            if beat.epoch != JOINING:
                raise UnknownMember(f"group {group_id} has no member {beat.member_id}")
            if group_id in self._classic.groups:
                await self._changeover.upgrade(self._classic.groups[group_id])
                return await self.consumer_heartbeat(group_id, beat)
            group = self._consumers.add(group_id)
        try:
            return await self._consumers.heartbeat(group, beat)
        finally:
            self._look_after(group)
            await self._changeover.ended(group_id)

    async def join(self, group_id: str, join: Join) -> Joined:
        """Take a member into the group's next generation and wait until that has formed."""
        self._check(group_id)
        _check_lengths(
            join.instance_id or "", join.client_id, join.protocol_type, *dict(join.protocols)
        )
        await self._changeover.ended(group_id)
        group = self._consumers.groups.get(group_id)
        if group is not None and group.is_empty:
            await self._changeover.downgrade(group)
            group = None
        if group is None:
            return await self._classic.join(group_id, join)
        try:
            return await self._consumers.join(group, join)
        finally:
            self._look_after(group)

    async def sync(self, group_id: str, sync: Sync) -> Synced:
        """Return a member's assignment as soon as it is made."""
        self._check(group_id)
        await self._changeover.ended(group_id)
        group = self._consumers.groups.get(group_id)
        if group is not None:
            return await self._consumers.sync(group, sync)
        return await self._classic.sync(group_id, sync)

    def heartbeat(self, group_id: str, identity: Identity) -> None:
        """Keep a member's session alive, or raise what it must do instead."""
        self._check(group_id)
        if group_id in self._changeover:
            raise RebalanceInProgress(f"group {group_id} changes its protocol")
        group = self._consumers.groups.get(group_id)
        if group is not None:
            self._consumers.heartbeat_of_classic(group, identity)
        else:
            self._classic.heartbeat(group_id, identity)

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ChordMQError | None]:
        """Let members go; each has its own error or None."""
        self._check(group_id)
        await self._changeover.ended(group_id)
        group = self._consumers.groups.get(group_id)
        if group is None:
            return self._classic.leave(group_id, leavers)
        try:
            return await self._consumers.leave(group, leavers)
        finally:
            self._look_after(group)
            await self._changeover.ended(group_id)

    def groups(self) -> Iterator[Group | ConsumerGroup]:
        """Yield every group."""
        self._check_loaded()
        return iter([*self._classic.groups.values(), *self._consumers.groups.values()])

    def has(self, group_id: str) -> bool:
        """Return whether a group has this id."""
        return self._find(group_id) is not None or group_id in self._changeover

    def find(self, group_id: str) -> Group | ConsumerGroup:
        """Return the group, or raise GroupNotFound."""
        self._check_serving(group_id)
        if group_id in self._changeover:
            raise CoordinatorLoading(f"group {group_id} changes its protocol")
        group = self._find(group_id)
        if group is None:
            raise GroupNotFound(f"Group {group_id} not found.")
        return group

    async def delete(self, group_id: str) -> None:
        """Delete an empty group with all its offsets."""
        await self._changeover.ended(group_id)
        group = self.find(group_id)
        group.check_delete()
        records: list[GroupLogRecord] = [*self._offsets.delete_group(group_id)]
        if isinstance(group, ConsumerGroup):
            group.delete()
            self._consumers.write(group)
            if records:
                await self._write(group_id, records)
            await self._consumers.logged(group)
        else:
            await self._write(group_id, [*records, GroupRecord(group_id, None)])

    async def commit(
        self,
        group_id: str,
        identity: Identity,
        commits: Sequence[Commit],
        retention_ms: int = -1,
    ) -> list[ChordMQError | None]:
        """Commit offsets and return, once they are safe, the error of each or None.

        Old consumers without a group commit under the empty id.
        """
        self._check(group_id or "none")
        await self._changeover.ended(group_id)
        self._check_commit(group_id, identity)
        now_ms = self._host.clock.now_ms()
        records, results = self._offsets.commits(group_id, commits, now_ms, retention_ms)
        if records:
            await _in_time(self._write(group_id, records))
        return results

    async def commit_in_transaction(
        self,
        group_id: str,
        identity: Identity,
        producer: Incarnation,
        commits: Sequence[Commit],
    ) -> list[ChordMQError | None]:
        """Log offsets that count when the producer's transaction is committed."""
        self._check(group_id)
        await self._changeover.ended(group_id)
        if identity != OUTSIDER:  # old clients do not say on whose behalf they commit
            self._check_commit(group_id, identity)
        records, results = self._offsets.commits(group_id, commits, self._host.clock.now_ms())
        if records:
            await _in_time(self._write(group_id, records, producer))
        return results

    async def end_transaction(self, log_partition: int, marker: Marker) -> None:
        """Let the offsets of a transaction count, or not, in one partition of the log."""
        await self.loaded.wait()

        def ended() -> None:
            for group_id in self._offsets.replay_marker(log_partition, marker):
                self._ensure(group_id)

        await self._logged(partial(self._log.append_marker, log_partition, marker), ended)

    def place_of(self, group_id: str) -> Place:
        """Return the partition that keeps a group's offsets, which transactions must include."""
        return TOPIC, self._log.partition_of(group_id)

    def pending(self, group_id: str) -> set[Place]:
        """Return where transactions that are not finished would move a group."""
        self._check_serving(group_id)
        return self._offsets.pending(group_id)

    def _check_commit(self, group_id: str, identity: Identity) -> None:
        group = self._find(group_id)
        if group is not None:
            group.check_commit(identity, self._alarm.now_ms())
        elif identity.generation >= 0:
            raise IllegalGeneration(f"group {group_id} has no generation {identity.generation}")

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Refuse to tell offsets to one who is not a member of the group any more."""
        self._check_serving(group_id)
        group = self._consumers.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def committed(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return what a group has committed; a group that nobody knows has committed nothing."""
        self._check_serving(group_id)
        return self._offsets.of_group(group_id)

    async def delete_offsets(
        self, group_id: str, places: Sequence[Place]
    ) -> list[ChordMQError | None]:
        """Delete offsets that no member needs, and return the error of each or None."""
        group = self.find(group_id)
        if not group.is_empty and group.protocol_type != CONSUMER:
            raise GroupNotEmpty(f"group {group_id} has members whose topics are not known")
        in_use = {topic: group.subscribes(topic) for topic in {topic for topic, _ in places}}
        known = self._offsets.of_group(group_id)
        records = [
            OffsetRecord(OffsetKey(group_id, *place), None)
            for place in places
            if place in known and not in_use[place[0]]
        ]
        if records:
            await self._write(group_id, records)
        return [
            GroupSubscribed(f"group {group_id} reads {topic}") if in_use[topic] else None
            for topic, _ in places
        ]

    def forget_topic(self, topic: str) -> None:
        """Delete all groups' offsets in a topic that is no more."""
        if not self.loaded.is_set():
            return  # the end of loading looks for such offsets
        by_group: dict[str, list[GroupLogRecord]] = {}
        for record in self._offsets.delete_topic(topic):
            by_group.setdefault(record.key.group_id, []).append(record)
        for group_id, records in by_group.items():
            self._log.append(group_id, records, partial(self._apply, records))

    def expire_offsets(self) -> None:
        """Delete offsets unused for longer than the retention time, and groups left with none."""
        now_ms = self._host.clock.now_ms()
        retention_ms = self._host.settings.offsets_retention_minutes * _MINUTE_MS
        for group in self.groups():
            offsets = self._offsets.of_group(group.group_id)
            since_ms = idle_since(group, {topic for topic, _ in offsets})
            records: list[GroupLogRecord] = [
                *self._offsets.expire(group.group_id, since_ms, retention_ms, now_ms)
            ]
            if len(records) == len(offsets) and group.is_empty:
                if isinstance(group, ConsumerGroup):
                    group.delete()
                    self._consumers.write(group)
                else:
                    records.append(GroupRecord(group.group_id, None))
            if records:
                log.info("offsets expired", group=group.group_id, count=len(records))
                self._log.append(group.group_id, records, partial(self._apply, records))

    def tick(self) -> None:
        """Let every group whose deadline has come act on it."""
        self._alarm.tick()

    def _ring(self, group_id: str) -> None:
        group = self._consumers.groups.get(group_id)
        if group is None:
            self._classic.tick(group_id)
        else:
            self._consumers.tick(group_id)
            self._look_after(group)

    def _look_after(self, group: ConsumerGroup) -> None:
        """Forget a group that never came to be, or send it back to the classic protocol."""
        if not group.image.exists:
            self._consumers.drop_if_gone(group)
        else:
            self._changeover.downgrade_if_due(group)

    def look_again(self) -> None:
        """Take note that partitions of the log may have changed their leader."""
        self._log.look_again()

    async def prepare(self) -> None:
        """Have the log, so that its leaders can be named."""
        await self._log.ensure()

    async def _load(self, log_partition: int) -> None:
        """Rebuild groups from the log; members get a whole session to come back."""
        snapshots: dict[str, GroupSnapshot | None] = {}
        images: dict[str, Image] = {}
        async for batch in self._log.replay(log_partition):
            if batch.marker is not None:
                self._offsets.replay_marker(batch.partition, batch.marker)
            for record in batch.entries:
                if isinstance(record, OffsetRecord):
                    self._replay_offset(record, batch.partition, batch.producer)
                elif isinstance(record, GroupRecord):
                    snapshots[record.group_id] = record.snapshot
                else:
                    images.setdefault(record.group_id, Image(record.group_id)).replay(record)
        self._consumers.load(list(images.values()))
        self._classic.load(snapshots)
        for group_id in self._kept_in(log_partition, self._offsets.groups()):
            self._ensure(group_id)

    def _unload(self, log_partition: int) -> None:
        """Forget what another node looks after now."""
        for group_id in self._kept_in(log_partition, self._classic.groups):
            self._classic.drop(group_id)
        for group_id in self._kept_in(log_partition, self._consumers.groups):
            self._consumers.take(group_id)
        self._offsets.forget(log_partition, self._kept_in(log_partition, self._offsets.groups()))

    def _kept_in(self, log_partition: int, group_ids: Iterable[str]) -> list[str]:
        return [one for one in group_ids if self._log.partition_of(one) == log_partition]

    def _ready(self) -> None:
        if not self.loaded.is_set():
            self.loaded.set()
            log.info("groups loaded", groups=sum(1 for _ in self.groups()))
        for topic in self._offsets.topics():
            if self._host.topics.find(topic) is None:  # deleted just before the node went down
                self.forget_topic(topic)

    def _stop(self) -> None:
        self.loaded.clear()
        self._log.close()
        self._alarm.cancel()
        self._classic.stop()

    def _check_loaded(self) -> None:
        if not self.loaded.is_set():
            raise CoordinatorLoading("groups are being read from the log")

    def _check_serving(self, group_id: str) -> None:
        self._check_loaded()
        self._log.check(group_id)

    def _check(self, group_id: str) -> None:
        self._check_serving(group_id)
        if not 0 < len(group_id.encode()) <= NAME_BYTES_MAX:
            raise InvalidGroupId("the group id is empty or too long")

    def _find(self, group_id: str) -> Group | ConsumerGroup | None:
        return self._classic.groups.get(group_id) or self._consumers.groups.get(group_id)

    def _ensure(self, group_id: str) -> None:
        """Have a group under this id, since it has committed offsets."""
        if not self.has(group_id):
            self._classic.add(group_id)

    async def _write(
        self,
        group_id: str,
        records: Sequence[GroupLogRecord],
        producer: Incarnation | None = None,
    ) -> None:
        """Write records, and return once they are in the log and applied."""
        await self._logged(
            lambda done: self._log.append(group_id, records, done, producer),
            lambda: self._apply(records, producer=producer),
        )

    async def _logged(self, append: Callable[[Done], None], apply: Callable[[], None]) -> None:
        """Have something written, apply it once it is in the log, and return then."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if error is None:
                apply()
            if written.done():  # the client that asked is gone
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        append(done)
        await written

    def _apply(
        self,
        records: Sequence[GroupLogRecord],
        error: ChordMQError | None = None,
        producer: Incarnation | None = None,
    ) -> None:
        if error is not None:
            return
        for record in records:
            if isinstance(record, OffsetRecord):
                group_id = record.key.group_id
                self._replay_offset(record, self._log.partition_of(group_id), producer)
                if record.committed is not None:
                    self._ensure(group_id)
            elif isinstance(record, GroupRecord):
                self._classic.replay_deletion(record.group_id)

    def _replay_offset(
        self, record: OffsetRecord, log_partition: int, producer: Incarnation | None
    ) -> None:
        if producer is None:
            self._offsets.replay(record)
        else:
            self._offsets.replay_pending(log_partition, producer.producer_id, record)


def _check_lengths(*names: str) -> None:
    if any(len(name.encode()) > NAME_BYTES_MAX // 2 for name in names):  # ids are made of two
        raise InvalidRequest("a name in the request is too long")


async def _in_time(written: Coroutine[None, None, None]) -> None:
    """Wait for a write, but not for ever; it counts even if nobody waits for it any more."""
    try:
        async with asyncio.timeout(COMMIT_TIMEOUT_S):
            await written
    except TimeoutError:
        raise CoordinatorNotAvailable("too few copies have the commit in time") from None

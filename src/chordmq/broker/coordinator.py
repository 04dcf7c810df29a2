"""The group coordinator: gives the pure machines a clock, a log and clients that wait."""

import asyncio
import dataclasses
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import structlog

from chordmq.broker.consumer_protocol import CONSUMER
from chordmq.broker.deadlines import Deadlines
from chordmq.broker.group_log import GROUP_TOPIC, TOPIC
from chordmq.broker.group_records import GroupLogRecord, GroupRecord
from chordmq.broker.group_states import State
from chordmq.broker.groups import Answer, Group, Outbox
from chordmq.broker.internal_log import Done, Host, InternalLog
from chordmq.broker.membership import GroupSnapshot, Identity, Join, Joined, Leaver, Sync, Synced
from chordmq.broker.offsets import (
    Commit,
    CommittedOffset,
    OffsetKey,
    OffsetRecord,
    Offsets,
    Place,
)
from chordmq.broker.producers import Incarnation
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
    UnknownMember,
)
from chordmq.records.marker import Marker

log = structlog.get_logger(__name__)

EXPIRY_INTERVAL_S = 600
NAME_BYTES_MAX = 2**15 - 1
"""Names and texts longer than this do not fit the log's format."""
_MINUTE_MS = 60_000
OUTSIDER = Identity()


class GroupCoordinator:
    """All consumer groups of the node.

    Nothing is answered before it is in the log, and every deadline of every group shares one timer
    of the event loop, so that idle members cost nothing but memory.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._log = InternalLog(host, GROUP_TOPIC)
        self._groups: dict[str, Group] = {}
        self._offsets = Offsets(min(host.settings.offset_metadata_max_bytes, NAME_BYTES_MAX))
        self._waiting: dict[int, asyncio.Future[Joined | Synced]] = {}
        self._tickets = itertools.count()
        self._deadlines = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.loaded = asyncio.Event()
        """Set once the log is read; until then clients are asked to try again."""

    async def run(self) -> None:
        """Read the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            try:
                await self._load()
                while True:
                    await asyncio.sleep(EXPIRY_INTERVAL_S)
                    self.expire_offsets()
            finally:
                self._stop()

    async def join(self, group_id: str, join: Join) -> Joined:
        """Take a member into the group's next generation and wait until that has formed."""
        self._check(group_id)
        _check_names(join)
        group = self._groups.get(group_id)
        if group is None:
            if join.member_id:
                raise UnknownMember(f"group {group_id} has no member {join.member_id}")
            group = self._new_group(group_id)
        ticket, answer = self._ticket()
        try:
            group.join(join, ticket, self._now_ms())
        except ChordMQError:
            del self._waiting[ticket]
            raise
        finally:
            self._settle(group)
        joined = await answer
        assert isinstance(joined, Joined)
        return joined

    async def sync(self, group_id: str, sync: Sync) -> Synced:
        """Return a member's assignment as soon as the leader has made it."""
        group = self._member_group(group_id)
        ticket, answer = self._ticket()
        try:
            group.sync(sync, ticket, self._now_ms())
        except ChordMQError:
            del self._waiting[ticket]
            raise
        self._settle(group)
        synced = await answer
        assert isinstance(synced, Synced)
        return synced

    def heartbeat(self, group_id: str, identity: Identity) -> None:
        """Keep a member's session alive, or raise what it must do instead."""
        self._member_group(group_id).heartbeat(identity, self._now_ms())

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ChordMQError | None]:
        """Let members go at once; each has its own error or None."""
        group = self._member_group(group_id)
        results = group.leave(leavers, self._now_ms())
        self._settle(group)
        return results

    def groups(self) -> Iterator[Group]:
        """Yield every group."""
        self._check_loaded()
        return iter(list(self._groups.values()))

    def has(self, group_id: str) -> bool:
        """Return whether a group has this id."""
        return group_id in self._groups

    def find(self, group_id: str) -> Group:
        """Return the group, or raise GroupNotFound."""
        self._check_loaded()
        group = self._groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"Group {group_id} not found.")
        return group

    async def delete(self, group_id: str) -> None:
        """Delete an empty group with all its offsets."""
        self.find(group_id).check_delete()
        records: list[GroupLogRecord] = [*self._offsets.delete_group(group_id)]
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
        self._check_commit(group_id, identity)
        now_ms = self._host.clock.now_ms()
        records, results = self._offsets.commits(group_id, commits, now_ms, retention_ms)
        if records:
            await self._write(group_id, records)
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
        if identity != OUTSIDER:  # old clients do not say on whose behalf they commit
            self._check_commit(group_id, identity)
        records, results = self._offsets.commits(group_id, commits, self._host.clock.now_ms())
        if records:
            await self._write(group_id, records, producer)
        return results

    async def end_transaction(self, log_partition: int, marker: Marker) -> None:
        """Let the offsets of a transaction count, or not, in one partition of the log."""
        await self.loaded.wait()

        def ended() -> None:
            for group_id in self._offsets.replay_marker(log_partition, marker):
                if group_id not in self._groups:
                    self._settle(self._new_group(group_id))

        await self._logged(partial(self._log.append_marker, log_partition, marker), ended)

    def place_of(self, group_id: str) -> Place:
        """Return the partition that keeps a group's offsets, which transactions must include."""
        return TOPIC, self._log.partition_of(group_id)

    def pending(self, group_id: str) -> set[Place]:
        """Return where transactions that are not finished would move a group."""
        self._check_loaded()
        return self._offsets.pending(group_id)

    def _check_commit(self, group_id: str, identity: Identity) -> None:
        group = self._groups.get(group_id)
        if group is not None:
            group.check_commit(identity, self._now_ms())
        elif identity.generation >= 0:
            raise IllegalGeneration(f"group {group_id} has no generation {identity.generation}")

    def committed(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return what a group has committed; a group that nobody knows has committed nothing."""
        self._check_loaded()
        return self._offsets.of_group(group_id)

    async def delete_offsets(
        self, group_id: str, places: Sequence[Place]
    ) -> list[ChordMQError | None]:
        """Delete offsets that no member needs, and return the error of each or None."""
        group = self.find(group_id)
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
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
        for group in list(self._groups.values()):
            offsets = self._offsets.of_group(group.group_id)
            idle_since = _idle_since(group, {topic for topic, _ in offsets})
            records: list[GroupLogRecord] = [
                *self._offsets.expire(group.group_id, idle_since, retention_ms, now_ms)
            ]
            if len(records) == len(offsets) and group.state is State.EMPTY:
                records.append(GroupRecord(group.group_id, None))
            if records:
                log.info("offsets expired", group=group.group_id, count=len(records))
                self._log.append(group.group_id, records, partial(self._apply, records))

    def tick(self) -> None:
        """Let every group whose deadline has come act on it."""
        self._timer = None
        now_ms = self._now_ms()
        for group_id in self._deadlines.due(now_ms):
            group = self._groups[group_id]
            group.tick(now_ms)
            self._settle(group)
        self._arm_timer()

    async def _load(self) -> None:
        """Rebuild offsets and groups from the log; members get a whole session to come back."""
        snapshots: dict[str, GroupSnapshot] = {}
        async for batch in self._log.replay():
            if batch.marker is not None:
                self._offsets.replay_marker(batch.partition, batch.marker)
            for record in batch.entries:
                if isinstance(record, OffsetRecord):
                    self._replay_offset(record, batch.partition, batch.producer)
                elif record.snapshot is None:
                    snapshots.pop(record.group_id, None)
                else:
                    snapshots[record.group_id] = record.snapshot
        for group_id in [*snapshots, *self._offsets.groups()]:
            self._groups.setdefault(group_id, self._new_group(group_id))
        for group_id, snapshot in snapshots.items():
            self._groups[group_id].replay(snapshot, self._now_ms())
            self._settle(self._groups[group_id])
        self.loaded.set()
        log.info("groups loaded", groups=len(self._groups))
        for topic in self._offsets.topics():
            if self._host.topics.find(topic) is None:  # deleted just before the node went down
                self.forget_topic(topic)

    def _stop(self) -> None:
        self.loaded.clear()
        self._log.close()
        if self._timer is not None:
            self._timer.cancel()
        stopped = CoordinatorNotAvailable("the node stops")
        self._send([(ticket, stopped) for ticket in list(self._waiting)])

    def _check_loaded(self) -> None:
        if not self.loaded.is_set():
            raise CoordinatorLoading("groups are being read from the log")

    def _check(self, group_id: str) -> None:
        self._check_loaded()
        if not 0 < len(group_id.encode()) <= NAME_BYTES_MAX:
            raise InvalidGroupId("the group id is empty or too long")

    def _member_group(self, group_id: str) -> Group:
        self._check(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMember(f"group {group_id} has no members")
        return group

    def _new_group(self, group_id: str) -> Group:
        return Group(group_id, self._host.settings, lambda: str(uuid.uuid4()))

    def _now_ms(self) -> int:
        return int(self._host.clock.monotonic_s() * 1000)

    def _ticket(self) -> tuple[int, asyncio.Future[Joined | Synced]]:
        ticket = next(self._tickets)
        self._waiting[ticket] = asyncio.get_running_loop().create_future()
        return ticket, self._waiting[ticket]

    def _settle(self, group: Group) -> None:
        """Do what a group has decided: log first, then answer; and note its next deadline."""
        outbox = group.take_outbox()
        if outbox.snapshots:
            self._log_snapshots(group, outbox)
        else:
            self._send(outbox.answers)
        if group.state is State.DEAD:
            return
        if group.is_unused and not self._offsets.of_group(group.group_id):
            self._forget(group)
            return
        self._groups[group.group_id] = group
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is None:
            self._deadlines.discard(group.group_id)
        else:
            self._deadlines.set(group.group_id, deadline_ms)
            self._arm_timer()

    def _log_snapshots(self, group: Group, outbox: Outbox) -> None:
        since_ms = self._host.clock.now_ms()
        snapshots = [dataclasses.replace(entry, since_ms=since_ms) for entry in outbox.snapshots]

        def done(error: ChordMQError | None) -> None:
            for snapshot in snapshots:
                if error is None:
                    group.replay(snapshot, self._now_ms())
                else:
                    group.lose(snapshot, error, self._now_ms())
            self._send([(ticket, error or answer) for ticket, answer in outbox.answers])
            self._settle(group)

        records = [GroupRecord(group.group_id, snapshot) for snapshot in snapshots]
        try:
            self._log.append(group.group_id, records, done)
        except CoordinatorNotAvailable as error:
            self._send([(ticket, error) for ticket, _ in outbox.answers])

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
                if group_id not in self._groups:
                    self._settle(self._new_group(group_id))
            else:
                self._delete(record.group_id)

    def _replay_offset(
        self, record: OffsetRecord, log_partition: int, producer: Incarnation | None
    ) -> None:
        if producer is None:
            self._offsets.replay(record)
        else:
            self._offsets.replay_pending(log_partition, producer.producer_id, record)

    def _delete(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None:
            group.replay(None, self._now_ms())
            if group.state is State.DEAD:
                self._forget(group)

    def _forget(self, group: Group) -> None:
        self._groups.pop(group.group_id, None)
        self._deadlines.discard(group.group_id)

    def _send(self, answers: Sequence[tuple[int, Answer]]) -> None:
        for ticket, answer in answers:
            waiting = self._waiting.pop(ticket, None)
            if waiting is None or waiting.done():  # the client or the node is gone
                continue
            if isinstance(answer, ChordMQError):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)

    def _arm_timer(self) -> None:
        """Have `tick` called when the next deadline comes."""
        next_ms = self._deadlines.next_ms()
        if next_ms is None or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(next_ms - self._now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.tick)
        self._timer_ms = next_ms


def _check_names(join: Join) -> None:
    names = (join.instance_id or "", join.client_id, join.protocol_type, *dict(join.protocols))
    if any(len(name.encode()) > NAME_BYTES_MAX // 2 for name in names):  # ids are made of two
        raise InvalidRequest("a name in the join is too long")


def _idle_since(group: Group, topics: set[str]) -> Callable[[str, CommittedOffset], int | None]:
    """Return the rule that says since when an offset of the group is not in use."""
    empty_since_ms = group.committed.since_ms if group.committed is not None else -1
    unread: set[str] = set()
    if group.state is State.STABLE:
        unread = {topic for topic in topics if not group.subscribes(topic)}

    def since_ms(topic: str, committed: CommittedOffset) -> int | None:
        if group.state is State.EMPTY:
            return max(committed.commit_ms, empty_since_ms)
        return committed.commit_ms if topic in unread else None

    return since_ms

"""The share groups of the node: gives the pure machines a clock, a timer, cursors and settings."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from chordmq.broker.alarm import Alarm
from chordmq.broker.cursors.cursor import Cursor, Policy
from chordmq.broker.cursors.cursors import EARLIEST, LATEST, Cursors
from chordmq.broker.cursors.shared_cursor import Limits
from chordmq.broker.groups.settings import GroupOverrides, GroupSettings
from chordmq.broker.groups.share_groups import LEAVING, Beat, Beaten, ShareGroup, TopicFacts
from chordmq.broker.internal_log import Host
from chordmq.errors import (
    ChordMQError,
    GroupNotEmpty,
    GroupNotFound,
    InvalidGroupId,
    InvalidRequest,
    UnknownTopic,
    UnknownTopicId,
)

NAME_BYTES_MAX = 2**15 - 1
MEMBER_ID_LENGTH_MAX = 1_000

OTHER_KIND = "Group {} is not a share group."


class Start(NamedTuple):
    """Where an operator wants a group to begin in one partition."""

    topic: str
    partition: int
    offset: int


class ShareCoordinator:
    """All share groups.

    Members live in memory: after a restart they come back with their next heartbeat. What a group
    has processed is in its cursors, and a group without members is there as long as it has one.
    """

    def __init__(
        self,
        host: Host,
        cursors: Cursors,
        overrides: GroupOverrides,
        is_other_kind: Callable[[str], bool],
    ) -> None:
        self._host = host
        self._cursors = cursors
        self._overrides = overrides
        self._is_other_kind = is_other_kind
        overrides.on_changed = self._apply_settings
        self._groups: dict[str, ShareGroup] = {}
        self._unopened: set[str] = set()
        """Groups that may have partitions without a cursor."""
        self._sessions: dict[str, tuple[str, str]] = {}
        """Group and member by the name of the member's deadline."""
        self.alarm = Alarm(host.clock, self._expire)

    async def run(self) -> None:
        """Serve until cancelled; then no timer fires any more."""
        try:
            await asyncio.Event().wait()
        finally:
            self.alarm.cancel()

    async def beat(self, group_id: str, beat: Beat) -> Beaten:
        """Take a heartbeat; a member that joins finds its cursors open when it is answered."""
        self._check(group_id, beat)
        group = self._groups.get(group_id) or ShareGroup(group_id)
        if beat.epoch == LEAVING:
            self._remove(group, beat.member_id)
            return Beaten(LEAVING, None)
        epoch = group.epoch
        beaten = group.beat(beat, self._facts, self._host.settings.group_max_size)
        self._groups[group_id] = group
        self._keep_alive(group_id, beat.member_id)
        if group.epoch != epoch:
            self._unopened.add(group_id)
        if group_id in self._unopened:
            await self._open_cursors(group)
        return beaten

    def _check(self, group_id: str, beat: Beat) -> None:
        self._cursors.check_loaded()
        if not 0 < len(group_id.encode()) <= NAME_BYTES_MAX:
            raise InvalidGroupId("the group id is empty or too long")
        if not 0 < len(beat.member_id) <= MEMBER_ID_LENGTH_MAX:
            raise InvalidRequest("MemberId can't be empty or that long.")
        if beat.epoch < LEAVING:
            raise InvalidRequest("MemberEpoch is invalid.")
        if self._is_other_kind(group_id):
            raise GroupNotFound(OTHER_KIND.format(group_id))

    def _facts(self, name: str) -> TopicFacts | None:
        topic = self._host.topics.find(name)
        if topic is None or topic.is_internal:
            return None
        return TopicFacts(topic.id, len(topic.partitions))

    async def _open_cursors(self, group: ShareGroup) -> None:
        """Open a cursor in every partition that the group subscribes to and has none in."""
        epoch = group.epoch
        opened = [self._open(group.group_id, name, index) for name, index in group.partitions]
        await asyncio.gather(*opened)
        if group.epoch == epoch:
            self._unopened.discard(group.group_id)

    async def _open(self, group_id: str, name: str, index: int) -> None:
        topic = self._host.topics.find(name)
        if topic is None or self._cursors.find(group_id, topic.id, index):
            return
        # A partition that came later is read from its beginning, so that nothing is missed.
        has_grown = any(self._cursors.find(group_id, topic.id, other) for other in range(index))
        start_ms = EARLIEST if has_grown else self._start_ms(self.settings(group_id))
        try:
            await self._cursors.open_anywhere(group_id, name, index, start_ms)
        except (UnknownTopic, UnknownTopicId):
            pass  # deleted meanwhile, which is not the member's fault

    def _start_ms(self, settings: GroupSettings) -> int:
        by_time = settings.start_ms(self._host.clock.now_ms())
        if by_time is not None:
            return by_time
        return EARLIEST if settings.share_auto_offset_reset == "earliest" else LATEST

    def settings(self, group_id: str) -> GroupSettings:
        """Return what is in force for a group."""
        return self._overrides.of(group_id)

    def groups(self) -> Iterator[ShareGroup]:
        """Yield every share group, those without members included."""
        self._cursors.check_loaded()
        names = dict.fromkeys([*self._groups, *self._cursors.groups()])
        return (self._groups.get(name) or ShareGroup(name) for name in names)

    def has(self, group_id: str) -> bool:
        """Return whether a share group has this id."""
        return group_id in self._groups or bool(self._cursors.of_group(group_id))

    def refuse(self, group_id: str) -> None:
        """Raise GroupNotFound for who takes a share group for one that commits offsets."""
        if self.has(group_id):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")

    def find(self, group_id: str) -> ShareGroup:
        """Return the group, or raise GroupNotFound."""
        self._cursors.check_loaded()
        if not self.has(group_id):
            raise GroupNotFound(f"Group {group_id} not found.")
        return self._groups.get(group_id) or ShareGroup(group_id)

    async def delete(self, group_id: str) -> None:
        """Delete an empty group with all it has processed."""
        self.check_empty(group_id)
        await self._cursors.delete(self._cursors.of_group(group_id))
        self._forget(group_id)

    def cursors(self, group_id: str) -> list[Cursor]:
        """Return where a group stands in each partition."""
        self.find(group_id)
        return self._cursors.of_group(group_id)

    async def set_starts(self, group_id: str, starts: Sequence[Start]) -> list[ChordMQError | None]:
        """Let an empty group begin at other offsets; return the error of each or None."""
        self.check_empty(group_id)
        return await asyncio.gather(*(self._set_start(group_id, start) for start in starts))

    async def _set_start(self, group_id: str, start: Start) -> ChordMQError | None:
        try:
            cursor = await self._cursors.open_here(group_id, start.topic, start.partition, LATEST)
            first, end = cursor.partition.log.start_offset, cursor.partition.high_watermark
            await self._cursors.reset(cursor, min(max(start.offset, first), end))
        except ChordMQError as error:
            return error
        return None

    async def delete_starts(self, group_id: str, topic: str) -> None:
        """Forget what an empty group has processed of a topic."""
        self.check_empty(group_id)
        topic_id = self._host.topics.get(topic).id
        cursors = self._cursors.of_group(group_id)
        await self._cursors.delete([c for c in cursors if c.key.topic_id == topic_id])

    def check_empty(self, group_id: str) -> None:
        """Raise GroupNotFound or GroupNotEmpty unless the group is there and has no members."""
        if self.find(group_id).members:
            raise GroupNotEmpty(f"Group {group_id} is not empty.")

    def _expire(self, name: str) -> None:
        """Let a member go that was not heard of for too long."""
        group_id, member_id = self._sessions[name]
        self._remove(self._groups[group_id], member_id)

    def _remove(self, group: ShareGroup, member_id: str) -> None:
        group.remove(member_id)
        name = _session(group.group_id, member_id)
        self._sessions.pop(name, None)
        self.alarm.discard(name)
        self._cursors.leave(group.group_id, member_id)
        if not group.members and not self._cursors.of_group(group.group_id):
            self._forget(group.group_id)

    def _forget(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
        self._unopened.discard(group_id)

    def _apply_settings(self, group_id: str) -> None:
        for cursor in self._cursors.of_group(group_id):
            cursor.policy = policy_of(self.settings(group_id), cursor.partition.topic)

    def _keep_alive(self, group_id: str, member_id: str) -> None:
        name = _session(group_id, member_id)
        self._sessions[name] = group_id, member_id
        timeout_ms = self.settings(group_id).share_session_timeout_ms
        self.alarm.set(name, self.alarm.now_ms() + timeout_ms)


def _session(group_id: str, member_id: str) -> str:
    """Return a name that no other member of any group has."""
    return f"{len(group_id)}:{group_id}:{member_id}"


def policy_of(settings: GroupSettings, topic: str) -> Policy:
    """Return the rules of a group's cursors in a topic."""
    return Policy(
        Limits(
            lock_ms=settings.share_record_lock_duration_ms,
            deliveries_max=settings.share_delivery_count_limit,
            in_flight_max=settings.share_partition_max_record_locks,
        ),
        only_stable=settings.share_isolation_level == "read_committed",
        dead_letter=settings.dead_letter(topic),
    )

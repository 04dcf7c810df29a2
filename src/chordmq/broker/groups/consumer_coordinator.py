"""The groups of the consumer protocol: a log before every answer, and topics as they are now."""

import asyncio
import uuid
from collections.abc import Callable, Sequence

from chordmq.broker.alarm import Alarm
from chordmq.broker.groups import classic_members
from chordmq.broker.groups.consumer_groups import Beat, Beaten, ConsumerGroup
from chordmq.broker.groups.consumer_image import ConsumerRecord, Image
from chordmq.broker.groups.membership import Identity, Join, Joined, Leaver, Sync, Synced
from chordmq.broker.groups.records import GroupLogRecord
from chordmq.broker.groups.settings import GroupSettings
from chordmq.broker.groups.topic_view import TopicFacts, TopicView
from chordmq.broker.internal_log import Host, InternalLog
from chordmq.errors import ChordMQError, CoordinatorNotAvailable

Written = asyncio.Future[ChordMQError | None]
"""Done when records are in the log, with None, or refused, with the reason."""


class ConsumerCoordinator:
    """Gives the machines of consumer groups a clock, a log and the node's topics."""

    def __init__(
        self,
        host: Host,
        log: InternalLog[GroupLogRecord],
        alarm: Alarm,
        settings_of: Callable[[str], GroupSettings],
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._host = host
        self._log = log
        self._alarm = alarm
        self._settings_of = settings_of
        self._unlogged: dict[str, Written] = {}
        """The last write of each group that has one under way; answers wait for it."""
        self._topics = TopicView([])
        self._topics_version = (-1, -1)

    async def heartbeat(self, group: ConsumerGroup, beat: Beat) -> Beaten:
        """Take a heartbeat of the consumer protocol, and answer when its effects are safe."""
        beaten = group.heartbeat(beat, self.topics(), self._alarm.now_ms())
        await self.logged(group)
        return beaten

    async def join(self, group: ConsumerGroup, join: Join) -> Joined:
        """Take a member of the classic protocol in."""
        try:
            joined = classic_members.join(
                group, join, self.topics(), lambda: str(uuid.uuid4()), self._alarm.now_ms()
            )
        finally:
            self._arm(group)
        await self.logged(group)
        return joined

    async def sync(self, group: ConsumerGroup, sync: Sync) -> Synced:
        """Tell a member of the classic protocol what it may read."""
        try:
            synced = classic_members.sync(group, sync, self.topics(), self._alarm.now_ms())
        finally:
            self._arm(group)
        await self.logged(group)
        return synced

    def heartbeat_of_classic(self, group: ConsumerGroup, identity: Identity) -> None:
        """Keep a classic member's session alive, or raise what it must do instead."""
        try:
            classic_members.heartbeat(group, identity, self._alarm.now_ms())
        finally:
            self._arm(group)

    async def leave(
        self, group: ConsumerGroup, leavers: Sequence[Leaver]
    ) -> list[ChordMQError | None]:
        """Let members go; each has its own error or None."""
        results = group.remove(leavers)
        await self.logged(group)
        return results

    def add(self, group_id: str, records: Sequence[ConsumerRecord] = ()) -> ConsumerGroup:
        """Begin a group with what the log has of it; members get a session to come back."""
        group = ConsumerGroup(
            group_id,
            self._host.settings,
            lambda: self._settings_of(group_id).consumer_session_timeout_ms,
        )
        for record in records:
            group.replay(record)
        group.wake(self._alarm.now_ms())
        self.groups[group_id] = group
        self._arm(group)
        return group

    def load(self, images: Sequence[Image]) -> None:
        """Begin the groups that the log holds."""
        for image in images:
            if image.exists:
                self.add(image.group_id, image.records())

    def take(self, group_id: str) -> ConsumerGroup:
        """Take a group out, to go on in another protocol."""
        self._alarm.discard(group_id)
        return self.groups.pop(group_id)

    def put_back(self, group: ConsumerGroup) -> None:
        """Go on with a group as the log has it, after it could not be taken out."""
        group.lose(self._alarm.now_ms())
        self.groups[group.group_id] = group
        self._arm(group)

    def tick(self, group_id: str) -> None:
        """Let a group act on a deadline that has come."""
        group = self.groups[group_id]
        group.tick(self._alarm.now_ms())
        self.write(group)

    async def logged(self, group: ConsumerGroup) -> None:
        """Wait until all that a group has decided is in the log; raise if that cannot be."""
        written = self.write(group)
        if written is None:
            return
        error = await asyncio.shield(written)
        if error is not None:
            raise CoordinatorNotAvailable(f"not written: {error}")

    def write(self, group: ConsumerGroup) -> Written | None:
        """Have what a group has decided written; return the write under way, if there is one."""
        records = group.take_outbox()
        self._arm(group)
        if not records:
            return self._unlogged.get(group.group_id)
        written: Written = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if self._unlogged.get(group.group_id) is written:
                del self._unlogged[group.group_id]
            if error is None:
                group.confirm(records)
            else:
                group.lose(self._alarm.now_ms())
                self._arm(group)
            self.drop_if_gone(group)
            written.set_result(error)

        self._unlogged[group.group_id] = written
        try:
            self._log.append(group.group_id, records, done)
        except CoordinatorNotAvailable as error:
            done(error)
        return written

    def topics(self) -> TopicView:
        """Return the node's topics; the same object until they or who may see them changes."""
        topics = self._host.topics
        version = (topics.version, self._host.permissions.acl.version)
        if version != self._topics_version:
            self._topics_version = version
            self._topics = TopicView(
                TopicFacts(topic.name, topic.id, len(topic.partitions), topic.is_internal)
                for topic in topics
            )
        return self._topics

    def drop_if_gone(self, group: ConsumerGroup) -> None:
        """Forget a group of which the log is to hold nothing."""
        image = group.image
        if not image.exists and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._alarm.discard(group.group_id)

    def _arm(self, group: ConsumerGroup) -> None:
        """Have the group called at its next deadline, unless it has gone over or away."""
        if self.groups.get(group.group_id) is group:
            self._alarm.set(group.group_id, group.next_deadline_ms())

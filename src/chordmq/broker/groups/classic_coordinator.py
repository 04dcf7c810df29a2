"""The groups of the classic protocol: parked requests, and a log before every answer."""

import asyncio
import dataclasses
import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence

from chordmq.broker.alarm import Alarm
from chordmq.broker.groups.classic_groups import Answer, Group, Outbox
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.membership import (
    GroupSnapshot,
    Identity,
    Join,
    Joined,
    Leaver,
    Sync,
    Synced,
)
from chordmq.broker.groups.records import GroupLogRecord, GroupRecord
from chordmq.broker.internal_log import Host, InternalLog
from chordmq.errors import (
    ChordMQError,
    CoordinatorNotAvailable,
    NotCoordinator,
    UnknownMember,
)


class ClassicCoordinator:
    """Gives the machines of classic groups a clock, a log and clients that wait."""

    def __init__(
        self,
        host: Host,
        log: InternalLog[GroupLogRecord],
        alarm: Alarm,
        has_offsets: Callable[[str], bool],
    ) -> None:
        self.groups: dict[str, Group] = {}
        self._host = host
        self._log = log
        self._alarm = alarm
        self._has_offsets = has_offsets
        self._waiting: dict[int, asyncio.Future[Joined | Synced]] = {}
        self._tickets = itertools.count()

    async def join(self, group_id: str, join: Join) -> Joined:
        """Take a member into the group's next generation and wait until that has formed."""
        group = self.groups.get(group_id)
        if group is None:
            if join.member_id:
                raise UnknownMember(f"group {group_id} has no member {join.member_id}")
            group = self._new_group(group_id)
        ticket, answer = self._ticket()
        try:
            group.join(join, ticket, self._alarm.now_ms())
        except ChordMQError:
            del self._waiting[ticket]
            raise
        finally:
            self.settle(group)
        joined = await answer
        assert isinstance(joined, Joined)
        return joined

    async def sync(self, group_id: str, sync: Sync) -> Synced:
        """Return a member's assignment as soon as the leader has made it."""
        group = self._member_group(group_id)
        ticket, answer = self._ticket()
        try:
            group.sync(sync, ticket, self._alarm.now_ms())
        except ChordMQError:
            del self._waiting[ticket]
            raise
        self.settle(group)
        synced = await answer
        assert isinstance(synced, Synced)
        return synced

    def heartbeat(self, group_id: str, identity: Identity) -> None:
        """Keep a member's session alive, or raise what it must do instead."""
        self._member_group(group_id).heartbeat(identity, self._alarm.now_ms())

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ChordMQError | None]:
        """Let members go at once; each has its own error or None."""
        group = self._member_group(group_id)
        results = group.leave(leavers, self._alarm.now_ms())
        self.settle(group)
        return results

    def add(self, group_id: str, snapshot: GroupSnapshot | None = None) -> Group:
        """Begin a group, with what the log has of it; members get a session to come back."""
        group = self._new_group(group_id)
        self.groups[group_id] = group
        if snapshot is not None:
            group.replay(snapshot, self._alarm.now_ms())
        self.settle(group)
        return group

    def load(self, snapshots: Mapping[str, GroupSnapshot | None]) -> None:
        """Begin the groups that the log holds; None is one that was deleted."""
        for group_id, snapshot in snapshots.items():
            if snapshot is not None:
                self.add(group_id, snapshot)

    def take(self, group_id: str) -> Group:
        """Take a group out, to go on in another protocol; who waits is to join again."""
        group = self.groups.pop(group_id)
        self._alarm.discard(group_id)
        group.dissolve()
        self._send(group.take_outbox().answers)
        return group

    def drop(self, group_id: str) -> None:
        """Let go of a group that another node looks after now; who waits asks there."""
        group = self.groups.get(group_id)
        if group is not None:
            self._forget(group)
            group.dissolve()
            gone = NotCoordinator(f"group {group_id} is looked after by another node")
            self._send([(ticket, gone) for ticket, _ in group.take_outbox().answers])

    def tick(self, group_id: str) -> None:
        """Let a group act on a deadline that has come."""
        group = self.groups[group_id]
        group.tick(self._alarm.now_ms())
        self.settle(group)

    def settle(self, group: Group) -> None:
        """Do what a group has decided: log first, then answer; and note its next deadline."""
        outbox = group.take_outbox()
        if outbox.snapshots:
            self._log_snapshots(group, outbox)
        else:
            self._send(outbox.answers)
        if group.state is State.DEAD:
            return
        if group.is_unused and not self._has_offsets(group.group_id):
            self._forget(group)
            return
        self.groups[group.group_id] = group
        self._alarm.set(group.group_id, group.next_deadline_ms())

    def replay_deletion(self, group_id: str) -> None:
        """Take note that the log holds the end of a group."""
        group = self.groups.get(group_id)
        if group is not None:
            group.replay(None, self._alarm.now_ms())
            if group.state is State.DEAD:
                self._forget(group)

    def stop(self) -> None:
        """Turn away everybody who waits."""
        stopped = CoordinatorNotAvailable("the node stops")
        self._send([(ticket, stopped) for ticket in list(self._waiting)])

    def _member_group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMember(f"group {group_id} has no members")
        return group

    def _new_group(self, group_id: str) -> Group:
        return Group(group_id, self._host.settings, lambda: str(uuid.uuid4()))

    def _forget(self, group: Group) -> None:
        self.groups.pop(group.group_id, None)
        self._alarm.discard(group.group_id)

    def _ticket(self) -> tuple[int, asyncio.Future[Joined | Synced]]:
        ticket = next(self._tickets)
        self._waiting[ticket] = asyncio.get_running_loop().create_future()
        return ticket, self._waiting[ticket]

    def _log_snapshots(self, group: Group, outbox: Outbox) -> None:
        since_ms = self._host.clock.now_ms()
        snapshots = [dataclasses.replace(entry, since_ms=since_ms) for entry in outbox.snapshots]

        def done(error: ChordMQError | None) -> None:
            for snapshot in snapshots:
                if error is None:
                    group.replay(snapshot, self._alarm.now_ms())
                else:
                    group.lose(snapshot, error, self._alarm.now_ms())
            self._send([(ticket, error or answer) for ticket, answer in outbox.answers])
            if group is self.groups.get(group.group_id):  # else it goes on in another protocol
                self.settle(group)

        records = [GroupRecord(group.group_id, snapshot) for snapshot in snapshots]
        try:
            self._log.append(group.group_id, records, done)
        except CoordinatorNotAvailable as error:
            self._send([(ticket, error) for ticket, _ in outbox.answers])

    def _send(self, answers: Sequence[tuple[int, Answer]]) -> None:
        for ticket, answer in answers:
            waiting = self._waiting.pop(ticket, None)
            if waiting is None or waiting.done():  # the client or the node is gone
                continue
            if isinstance(answer, ChordMQError):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)

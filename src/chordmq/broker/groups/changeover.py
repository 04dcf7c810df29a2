"""Groups on their way from one protocol to the other: out of sight until the log has it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from chordmq.broker.alarm import Alarm
from chordmq.broker.groups.classic_coordinator import ClassicCoordinator
from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.consumer_coordinator import ConsumerCoordinator, Written
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.migration import can_downgrade, can_upgrade, downgraded, upgraded
from chordmq.broker.groups.records import GroupLogRecord, GroupRecord
from chordmq.broker.internal_log import Host, InternalLog
from chordmq.errors import ChordMQError, CoordinatorNotAvailable, GroupNotFound, NotCoordinator
from chordmq.logs import get_logger

log = get_logger(__name__)


class Changeover:
    """Moves groups between the two coordinators; meanwhile neither has them, and requests wait."""

    def __init__(
        self,
        host: Host,
        log: InternalLog[GroupLogRecord],
        alarm: Alarm,
        classic: ClassicCoordinator,
        consumers: ConsumerCoordinator,
    ) -> None:
        self._host = host
        self._log = log
        self._alarm = alarm
        self._classic = classic
        self._consumers = consumers
        self._under_way: dict[str, Written] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._under_way

    async def ended(self, group_id: str) -> None:
        """Wait until the group is in one place again."""
        while group_id in self._under_way:
            await asyncio.shield(self._under_way[group_id])

    async def upgrade(self, group: Group) -> None:
        """Let a classic group go on in the consumer protocol, with its members if it has any."""
        if not can_upgrade(group, self._host.settings):
            raise GroupNotFound(f"Group {group.group_id} is not a consumer group.")
        group_id = group.group_id
        committed = self._classic.take(group_id).committed
        records = upgraded(group, self._consumers.topics()).records()
        log.info("group upgraded", group=group_id, members=len(group.roster))
        await _checked(
            self._write(
                group_id,
                [GroupRecord(group_id, None), *records],
                lambda: self._consumers.add(group_id, records),
                lambda: self._classic.add(group_id, committed),
            )
        )

    def downgrade_if_due(self, group: ConsumerGroup) -> None:
        """Let a group go on in the classic protocol when only classic members are left."""
        if group.group_id in self._consumers.groups and can_downgrade(
            group.image, self._host.settings
        ):
            self._downgrade(group)

    async def downgrade(self, group: ConsumerGroup) -> None:
        """Let a group without members go on in the classic protocol."""
        await _checked(self._downgrade(group))

    def _downgrade(self, group: ConsumerGroup) -> Written:
        group_id = group.group_id
        self._consumers.write(group)
        self._consumers.take(group_id)
        snapshot = downgraded(group.image, self._consumers.topics())
        log.info("group downgraded", group=group_id, members=len(snapshot.members))

        def go_on() -> None:
            classic = self._classic.add(group_id, snapshot)
            classic.rebalance(self._alarm.now_ms())
            self._classic.settle(classic)

        # Should the node crash before the members have joined again, a generation that none of
        # them knows makes them do so, and what the last member left has readers again.
        logged = replace(snapshot, generation=snapshot.generation + 1)
        return self._write(
            group_id,
            [*group.image.deletion(), GroupRecord(group_id, logged)],
            go_on,
            lambda: self._consumers.put_back(group),
        )

    def _write(
        self,
        group_id: str,
        records: Sequence[GroupLogRecord],
        go_on: Callable[[], object],
        go_back: Callable[[], object],
    ) -> Written:
        written: Written = asyncio.get_running_loop().create_future()
        self._under_way[group_id] = written

        def done(error: ChordMQError | None) -> None:
            del self._under_way[group_id]
            if error is None:
                go_on()
            elif not isinstance(error, NotCoordinator):  # else another node knows how it went
                go_back()
            written.set_result(error)

        try:
            self._log.append(group_id, records, done)
        except CoordinatorNotAvailable as error:
            done(error)
        return written


async def _checked(written: Written) -> None:
    error = await asyncio.shield(written)
    if error is not None:
        raise CoordinatorNotAvailable(f"not written: {error}")

"""Lets one broker at a time be the controller, and makes the changes that it decides."""

import asyncio
from collections.abc import Callable

from chordmq.clock import Clock
from chordmq.cluster.controller import Change, Controller, ControllerSettings, Place, Seen, View
from chordmq.cluster.elections import Rules
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import (
    Compare,
    DeleteUnder,
    Event,
    LeaseLost,
    Put,
    StoreConflict,
    absent,
)
from chordmq.cluster.registration import Registration
from chordmq.cluster.state import (
    BROKERS,
    CONTROLLER,
    LIVE,
    PARTITIONS,
    TOPICS,
    ControllerLease,
    PartitionState,
    TopicState,
    broker_key,
    decode,
    encode,
    partition_key,
    partition_of,
    partitions_key,
)
from chordmq.errors import StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger

INTERVAL_S = 1.0
"""How often a controller looks even if nothing has happened."""
RETRY_DELAY_S = 0.1
ORPHAN_S = 60.0
"""How long partitions may be there before their topic: whoever makes it puts them there first."""

log = get_logger(__name__)


class Controlling:
    """Campaigns for the controller's key under this broker's lease, and acts while it is ours."""

    def __init__(
        self,
        image: Image,
        members: Members,
        registration: Registration,
        settings: ControllerSettings,
        clock: Clock,
    ) -> None:
        self.epoch = 0
        """The revision that made this broker controller; 0 while it is not."""
        self.elections = 0
        """How often this broker has given a partition another leader."""
        self._image = image
        self._members = members
        self._registration = registration
        self._settings = settings
        self._clock = clock
        self._news = asyncio.Event()
        self._decoded: dict[Place, Seen] = {}
        self._orphan_since_s: dict[bytes, float] = {}
        for family in (LIVE, BROKERS, PARTITIONS, TOPICS, CONTROLLER):
            image.listen(family, self._hear)

    async def run(self, cluster: str, rules: Callable[[bytes], Rules]) -> None:
        """Campaign and control until cancelled."""
        while True:
            try:
                await self._campaign()
                if self.epoch:
                    await self._control(cluster, rules)
                else:
                    await self._wait()
            except (StoreConflict, StoreUnavailable, UnknownOutcome, LeaseLost) as error:
                log.debug("controller was held up", reason=str(error) or type(error).__name__)
                await asyncio.sleep(RETRY_DELAY_S)

    async def _campaign(self) -> None:
        """Take the controller's key if nobody has it."""
        entry, mine = self._image.get(CONTROLLER), self._registration
        if entry is not None:
            holder = decode(entry, ControllerLease).broker
            self.epoch = entry.created if holder == mine.broker and entry.lease == mine.lease else 0
            return
        self.epoch = 0
        lease = Put(CONTROLLER, encode(ControllerLease(broker=mine.broker)), mine.lease)
        compares = [absent(CONTROLLER), Compare(broker_key(mine.broker), revision=mine.epoch)]
        self.epoch = await self._image.commit(compares, [lease])
        log.info("controls the cluster", broker=mine.broker, epoch=self.epoch)

    async def _control(self, cluster: str, rules: Callable[[bytes], Rules]) -> None:
        """Make what changes are due until the key is another's."""
        controller = Controller(cluster, self._settings, self._clock.monotonic_s())
        await self._image.refresh()
        while self._is_mine():
            changes = controller.plan(self._view(rules), self._clock.monotonic_s())
            orphans = self._orphans()
            if not changes and not orphans:
                await self._wait()
                continue
            try:
                await self._make(changes)
                await self._forget(orphans)
            except StoreConflict:  # somebody has changed one of them, or the key is another's
                await self._image.refresh()
        log.info("controls the cluster no more", broker=self._registration.broker)
        self.epoch = 0

    async def _make(self, changes: list[Change]) -> None:
        size = self._image.store.operations_max
        mine = Compare(CONTROLLER, created=self.epoch)
        for start in range(0, len(changes), size):
            some = changes[start : start + size]
            keys = [partition_key(*change.place) for change in some]
            compares = [
                Compare(key, revision=c.revision) for key, c in zip(keys, some, strict=True)
            ]
            puts = [Put(key, encode(c.state)) for key, c in zip(keys, some, strict=True)]
            before = {c.place: self._decoded[c.place].state.leader for c in some}
            await self._image.commit([mine, *compares], puts)
            self.elections += sum(before[c.place] != c.state.leader for c in some)

    def _orphans(self) -> list[bytes]:
        """Return topics that are not there, though their partitions have been for long."""
        topics = {decode(entry, TopicState).id for entry in self._image.under(TOPICS)}
        now_s = self._clock.monotonic_s()
        found = {place[0] for place in self._decoded if place[0].hex() not in topics}
        self._orphan_since_s = {one: self._orphan_since_s.get(one, now_s) for one in found}
        return [one for one, since_s in self._orphan_since_s.items() if now_s - since_s >= ORPHAN_S]

    async def _forget(self, topics: list[bytes]) -> None:
        """Remove what a creation or a deletion has left that did not come to its end."""
        mine = Compare(CONTROLLER, created=self.epoch)
        for topic in topics:
            await self._image.commit([mine], [DeleteUnder(partitions_key(topic))])
            log.info("partitions without a topic removed", topic=topic.hex())

    def _view(self, rules: Callable[[bytes], Rules]) -> View:
        members = self._members.all()
        topics = {decode(entry, TopicState).id for entry in self._image.under(TOPICS)}
        decoded = {}
        for entry in self._image.under(PARTITIONS):
            place = partition_of(entry.key)
            seen = self._decoded.get(place)
            if seen is None or seen.revision != entry.revision:
                seen = Seen(decode(entry, PartitionState), entry.revision)
            decoded[place] = seen
        self._decoded = decoded
        return View(
            live=self._members.live(),
            uuids={member.id: member.registration.uuid for member in members},
            racks={member.id: member.registration.rack for member in members},
            partitions={place: one for place, one in decoded.items() if place[0].hex() in topics},
            rules=rules,
        )

    def _is_mine(self) -> bool:
        entry = self._image.get(CONTROLLER)
        return entry is not None and entry.created == self.epoch

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(INTERVAL_S):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    def _hear(self, _events: list[Event]) -> None:
        self._news.set()

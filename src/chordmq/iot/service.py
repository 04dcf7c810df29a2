"""Looks after devices: reads what they and their clients say, stores what comes of it, and tells.

Everything that changes a device is a message in the log. A step reads some, decides, stores what
changes together with how far it has read and what is to be told, and then tells it. So a crash at
any point loses nothing and repeats nothing.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.feed import Feed, Found
from chordmq.broker.names import Names, name_of, named, without_name
from chordmq.client.partitioner import partition_for_key
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    NotCommittedInTime,
    NotCoordinator,
    NotLeader,
    OffsetOutOfRange,
)
from chordmq.iot import devices, envelope
from chordmq.iot.commands import Command
from chordmq.iot.desk import Desk, Refusal, Rules, Step
from chordmq.iot.devices import Address
from chordmq.iot.draft import Draft
from chordmq.iot.entries import Entry
from chordmq.iot.messages import Incoming
from chordmq.iot.publisher import Publisher
from chordmq.iot.store import Store
from chordmq.logs import get_logger
from chordmq.records.record import NewRecord

log = get_logger(__name__)

STEP_RECORDS_MAX = 500
STEP_BYTES_MAX = 2 * 1024 * 1024
"""What a step may have to tell, about; MongoDB keeps a step in one document."""
TAKEN_MAX = 50, 1024 * 1024
"""Records, and bytes, that are read at once."""
IDLE_S = 1.0
"""After this time without messages, the service notes that it has told everything."""
WAIT_S_MAX = 60.0
RETRY_S = 0.5
ANSWER_TIMEOUT_S = 20.0
UNMARKED_RECORDS_MAX = 100_000
"""Messages without consequence after which it is noted how far the service has read."""


class Devices:
    """The service; `run` serves while this node is the one to do so."""

    def __init__(
        self, broker: Broker, store: Store, rules: Rules, names: Names, retained_max: int
    ) -> None:
        self._broker = broker
        self._store = store
        self._rules = rules
        self._names = names
        self._publisher = Publisher(broker, names, retained_max)
        self._appends = Appends()
        self.topic = names.destination(str(Address("x", devices.SHADOW_UPDATE))).topic
        self._desk: Desk | None = None
        self._feed: Feed | None = None
        self._woken = asyncio.Event()
        self._present: dict[str, int] = {}
        """How many connections clients have, by what they call themselves."""
        self._moved: dict[str, None] = {}
        self._asking: dict[str, asyncio.Future[Any]] = {}
        self._ending: dict[tuple[str, str], list[asyncio.Future[Command]]] = {}
        self._unmarked = 0
        self.messages = 0
        self.steps = 0
        self.dead_letters = 0

    @property
    def found(self) -> Desk | None:
        """Return what is known of devices, where this node looks after them."""
        return self._desk

    @property
    def desk(self) -> Desk:
        """Return what is known of devices; raise NotLeader or CoordinatorLoading if not here."""
        if self._desk is not None:
            return self._desk
        leader = self._store.leader
        if leader not in (-1, self._broker.node_id):
            raise NotLeader(f"node {leader} looks after devices", leader)
        raise CoordinatorLoading("devices are being read from the store")

    async def run(self) -> None:
        """Serve devices until cancelled."""
        presence = self._broker.presence
        for client in presence:
            self._count(client.name, 1)
        presence.watchers.append(self._hear_presence)
        self._broker.topics.watchers.append(self.look_again)
        async with self._store.opened():
            while True:
                self._woken.clear()
                try:
                    await self._serve()
                except (NotCoordinator, NotLeader) as error:
                    log.info("devices are not served here", reason=str(error))
                except ChordMQError as error:
                    log.error("devices are not served", error=str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), RETRY_S)

    def look_again(self, *_: object) -> None:
        """Take note that topics, or who leads them, may have changed."""
        self._woken.set()
        if self._feed is not None:
            self._feed.wake()

    async def ask(self, address: Address, told: object, source: str) -> Any:
        """Send a message as a client would; return what came of it, or raise why it was refused."""
        _ = self.desk
        name, message_id = str(address), uuid.uuid4().hex
        now_ms = self._broker.clock.now_ms()
        origin = envelope.Origin(
            message_id=message_id,
            now_ms=now_ms,
            topic=name,
            source=source,
            message_type=address.subject.type,
        )
        key = self._names.destination(name).key
        record = NewRecord(now_ms, key, envelope.wrap(msgspec.json.encode(told), origin))
        partitions = (await self._broker.topics.ensure(self.topic)).partitions
        if not await self._store.is_mine():
            raise NotLeader("another node looks after devices", self._store.leader)
        partition = partitions[partition_for_key(key or b"", len(partitions))]
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asking[message_id] = answer
        try:
            await self._appends.append(partition, [named(record, name)])
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                found = await answer
        except TimeoutError:
            raise NotCommittedInTime("it is in the log, and not yet done") from None
        finally:
            del self._asking[message_id]
        if isinstance(found, Refusal):
            raise found.error
        return found

    async def ended(self, device: str, command: str, timeout_s: float) -> Command:
        """Return a command once it has ended, or as it is when the time is over."""
        known = self.desk.command(device, command)
        if known.state.is_final or timeout_s <= 0:
            return known
        end: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        waiting = self._ending.setdefault((device, command), [])
        waiting.append(end)
        try:
            async with asyncio.timeout(timeout_s):
                return await end
        except TimeoutError:
            return self.desk.command(device, command)
        finally:
            waiting.remove(end)
            if not waiting:
                self._ending.pop((device, command), None)

    async def _serve(self) -> None:
        topic = self._broker.topics.find(self.topic)
        if topic is None:
            # Nobody has said anything of a device, and nothing was stored; there is an empty desk.
            self._desk = Desk(self._rules)
            try:
                await self._woken.wait()
            finally:
                self._desk = None
            return
        if not await self._store.is_mine():
            await self._woken.wait()
            return
        async with self._at_desk(topic.id) as desk:
            partitions = {one.index: one for one in topic.partitions}
            feed = self._feed = Feed(partitions, desk.progress.offsets, is_patient=True)
            try:
                while self._broker.topics.find(self.topic) is topic:
                    if len(topic.partitions) != len(partitions):
                        return
                    await self._advance(desk, feed)
            finally:
                self._feed = None
                feed.close()

    @asynccontextmanager
    async def _at_desk(self, topic_id: bytes) -> AsyncIterator[Desk]:
        """Load what is known, finish what was begun, and serve for the length of a block."""
        desk = Desk(self._rules)
        for entry in await self._store.load():
            desk.replay(entry)
        progress = desk.progress
        if progress.producer_id < 0:
            producer_id = await self._broker.new_producer_id()
            progress = msgspec.structs.replace(progress, producer_id=producer_id)
        sequences = await self._publisher.publish(progress)
        offsets = progress.offsets if progress.topic_id == topic_id else {}
        desk.replay(
            msgspec.structs.replace(
                progress, offsets=offsets, topic_id=topic_id, sequences=sequences
            )
        )
        # Whoever was connected when the node went down is not any more, or has come back.
        self._moved |= {one.id: None for one in desk.devices.values() if one.is_connected}
        self._moved |= dict.fromkeys(self._present)
        log.info("devices loaded", devices=len(desk.devices))
        self._desk = desk
        try:
            yield desk
        finally:
            self._desk = None
            for answer in self._asking.values():
                if not answer.done():
                    answer.set_result(Refusal(NotCommittedInTime("the service moves or stops")))

    async def _advance(self, desk: Desk, feed: Feed) -> None:
        """Take one step; wait if there is nothing to do."""
        now_ms = self._broker.clock.now_ms()
        draft = Draft(desk, now_ms, self._node_of)
        count = 0
        while count < STEP_RECORDS_MAX and draft.size < STEP_BYTES_MAX:
            found = self._take(feed)
            for one in found:
                draft.receive(self._incoming(one))
            count += len(found)
            if not found:
                break
        moved, self._moved = self._moved, {}
        for device in moved:
            draft.connect(device, self._node_of(device))
        draft.pass_time()
        step = draft.finish()
        self._unmarked += count
        if step or self._unmarked > UNMARKED_RECORDS_MAX:
            await self._take_step(desk, step, feed.offsets)
        self._answer(step)
        if not count and not step:
            await self._rest(desk, feed)

    async def _take_step(self, desk: Desk, step: Step, offsets: Mapping[int, int]) -> None:
        """Store what changes and how far we are, let it count, and then tell."""
        before = desk.progress
        progress = msgspec.structs.replace(
            before,
            offsets=dict(offsets),
            outgoing=tuple(step.outgoing),
            now_ms=self._broker.clock.now_ms(),
            count=before.count + len(step.outgoing),
        )
        entries: list[Entry] = [*step.entries, progress]
        await self._store.save(entries)
        for entry in step.entries:
            desk.replay(entry)
        sequences = await self._publisher.publish(progress)
        desk.replay(msgspec.structs.replace(progress, sequences=sequences))
        self._unmarked = 0
        self.steps += 1
        self.dead_letters += sum(one.is_dead for one in step.outgoing)

    def _answer(self, step: Step) -> None:
        """Tell those who wait, and the audit trail."""
        for message_id, found in step.answers.items():
            answer = self._asking.get(message_id)
            if answer is not None and not answer.done():
                answer.set_result(found)
        for entry in step.entries:
            if isinstance(entry, Command) and entry.state.is_final:
                for end in self._ending.get((entry.device, entry.id), ()):
                    if not end.done():
                        end.set_result(entry)
        audit = self._broker.audit
        for who, act, what in step.events:
            if who:
                audit.record(who=f"User:{who}", host="", act=act, obj=what)
            else:
                audit.record_own(act, what)

    async def _rest(self, desk: Desk, feed: Feed) -> None:
        """Wait for messages, or until something is due by itself."""
        if self._moved:
            return
        wait_ms = desk.wait_ms(self._broker.clock.now_ms())
        wait_s = WAIT_S_MAX if wait_ms is None else min(wait_ms / 1000, WAIT_S_MAX)
        if not desk.progress.outgoing:
            await feed.more(wait_s)
        elif not await feed.more(min(wait_s, IDLE_S)) and wait_s >= IDLE_S:
            # The log forgets producers that are idle for long, so that it could not tell any more
            # that all of this is told.
            done = msgspec.structs.replace(desk.progress, offsets=dict(feed.offsets), outgoing=())
            await self._store.save([done])
            desk.replay(done)

    def _take(self, feed: Feed) -> list[Found]:
        try:
            found = feed.take(*TAKEN_MAX)
        except OffsetOutOfRange:
            for gap in feed.skip_gaps():
                log.error("messages of devices were deleted unread", gap=str(gap))
            found = []
        self.messages += len(found)
        return found

    def _incoming(self, found: Found) -> Incoming:
        record = found.record
        return Incoming(
            name_of(self.topic, record),
            record.value,
            without_name(record.headers),
            self.topic,
            found.partition,
            record.offset,
        )

    def _node_of(self, device: str) -> int | None:
        return self._broker.node_id if self._present.get(device) else None

    def _hear_presence(self, name: str, is_there: bool) -> None:
        self._count(name, 1 if is_there else -1)
        if self._desk is not None and name in self._desk.devices:
            self._moved[name] = None
            if self._feed is not None:
                self._feed.wake()

    def _count(self, name: str, change: int) -> None:
        count = self._present.get(name, 0) + change
        if count > 0:
            self._present[name] = count
        else:
            self._present.pop(name, None)

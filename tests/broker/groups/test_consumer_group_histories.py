"""Random histories of one group of the consumer protocol, with members of both protocols.

Clients lose answers, fall silent, come back as static members and switch protocols; topics come, go
and grow; the log is slow, refuses writes, and the node crashes. Whatever happens, nobody reads a
partition that another still has, and when the storm is over every partition has its reader.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from chordmq.broker.groups import classic_members
from chordmq.broker.groups.assignors import NOTHING, Assignment
from chordmq.broker.groups.consumer_groups import (
    JOINING,
    LEAVING,
    Beat,
    Beaten,
    ConsumerGroup,
    ConsumerState,
)
from chordmq.broker.groups.consumer_image import LEFT_FOR_NOW, ConsumerRecord
from chordmq.broker.groups.consumer_protocol import read_assignment
from chordmq.broker.groups.membership import Identity, Join, Joined, Leaver, Sync, Synced
from chordmq.broker.groups.topic_view import TopicFacts, TopicView
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from chordmq.codecs.kafka.schema import encode
from chordmq.errors import (
    ChordMQError,
    FencedMemberEpoch,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
    UnreleasedInstance,
)

SESSION_MS = 1_000
REBALANCE_MS = 3_000
ROUNDS_MAX = 60
NAMES = ("a", "b", "c")

Deliver = Callable[[], None]


@dataclass(eq=False)
class Client:
    """One consumer process: what it believes, and what it really reads."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    epoch: int = JOINING
    owned: Assignment = NOTHING
    told: Assignment | None = None
    """An assignment that it has heard of and not taken over yet."""
    reported: Assignment | None = None
    assignor: str | None = None
    pattern: str | None = None
    is_gone: bool = False

    def forget(self) -> None:
        self.epoch, self.owned, self.told, self.reported = JOINING, NOTHING, None, None


@dataclass(eq=False)
class OldClient:
    """One consumer process of the classic protocol."""

    topics: frozenset[str]
    is_cooperative: bool
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    owned: Assignment = NOTHING
    must_join: bool = True
    must_sync: bool = False
    is_gone: bool = False


@dataclass
class Storm:
    """The topics and the view of them that the group is given."""

    topics: dict[str, TopicFacts] = field(default_factory=dict)
    ids: int = 0
    view: TopicView = field(default_factory=lambda: TopicView([]))

    def put(self, name: str, partitions: int) -> None:
        known = self.topics.get(name)
        if known is None:
            self.ids += 1
            known = TopicFacts(name, self.ids.to_bytes(16, "big"), partitions)
        self.topics[name] = known._replace(partitions=max(partitions, known.partitions))
        self.view = TopicView(self.topics.values())

    def remove(self, name: str) -> None:
        self.topics.pop(name, None)
        self.view = TopicView(self.topics.values())


class ConsumerGroupHistory(RuleBasedStateMachine):
    """A group, its log, and clients that come and go."""

    clients = Bundle("clients")
    old_clients = Bundle("old_clients")

    @initialize()
    def start(self) -> None:
        self.settings = BrokerSettings()
        self.now_ms = 0
        self.ids = itertools.count()
        self.everyone: list[Client] = []
        self.everyone_old: list[OldClient] = []
        self.log: list[ConsumerRecord] = []
        self.unlogged: list[tuple[list[ConsumerRecord], Deliver]] = []
        self.storm = Storm()
        self.storm.put("a", 3)
        self.group = self.new_group()

    def new_group(self) -> ConsumerGroup:
        return ConsumerGroup("g", self.settings, lambda: SESSION_MS)

    # What clients do.

    @rule(
        target=clients,
        topics=st.sets(st.sampled_from(NAMES)),
        instance=st.sampled_from([None, None, "i0", "i1"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
        pattern=st.sampled_from([None, None, "[ab]"]),
    )
    def new_client(
        self, topics: set[str], instance: str | None, assignor: str | None, pattern: str | None
    ) -> Client:
        client = Client(
            f"m{next(self.ids)}", frozenset(topics), instance, assignor=assignor, pattern=pattern
        )
        self.everyone.append(client)
        self.beat(client, is_lost=False)
        return client

    @rule(client=clients, is_lost=st.booleans())
    def beat(self, client: Client, is_lost: bool) -> None:
        """Send a heartbeat, in full when the last answer may have been lost."""
        if client.is_gone:
            return
        is_full = client.epoch == JOINING or client.reported is None
        beat = Beat(
            member_id=client.member_id,
            epoch=client.epoch,
            instance_id=client.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else None,
            topics=client.topics if is_full else None,
            pattern=client.pattern if is_full else None,
            assignor=client.assignor,
            owned=client.owned if is_full or client.owned != client.reported else None,
        )
        client.reported = client.owned
        try:
            beaten = self.group.heartbeat(beat, self.storm.view, self.now_ms)
        except (FencedMemberEpoch, UnknownMember):
            client.forget()
            return
        except UnreleasedInstance:
            return
        except ChordMQError:  # another process has taken over
            client.is_gone = True
            return
        self.collect((lambda: None) if is_lost else lambda: self.heard(client, beaten))
        if is_lost:
            client.reported = None  # the next heartbeat says everything again

    def heard(self, client: Client, beaten: Beaten) -> None:
        if client.is_gone:
            return
        assert beaten.epoch >= client.epoch, "an epoch has gone back"
        client.epoch = beaten.epoch
        if beaten.assignment is not None:
            client.told = beaten.assignment

    @rule(client=clients)
    def adopt(self, client: Client) -> None:
        """Give up what is not assigned any more, and begin to read the rest."""
        if client.told is not None and not client.is_gone:
            client.owned, client.told = client.told, None

    @rule(client=clients, for_good=st.booleans())
    def leave(self, client: Client, for_good: bool) -> None:
        if client.is_gone or client.epoch == JOINING:
            return
        client.is_gone, client.owned = True, NOTHING
        is_away = client.instance_id is not None and not for_good
        epoch = LEFT_FOR_NOW if is_away else LEAVING
        beat = Beat(member_id=client.member_id, epoch=epoch, instance_id=client.instance_id)
        try:
            self.group.heartbeat(beat, self.storm.view, self.now_ms)
        except ChordMQError:
            return
        self.collect(lambda: None)

    @rule(client=clients)
    def vanish(self, client: Client) -> None:
        client.is_gone, client.owned = True, NOTHING

    # What classic clients do.

    @rule(
        target=old_clients,
        topics=st.sets(st.sampled_from(NAMES), min_size=1),
        is_cooperative=st.booleans(),
        instance=st.sampled_from([None, "i0"]),
    )
    def new_old_client(
        self, topics: set[str], is_cooperative: bool, instance: str | None
    ) -> OldClient:
        client = OldClient(frozenset(topics), is_cooperative, instance_id=instance)
        self.everyone_old.append(client)
        return client

    @rule(client=old_clients)
    def join(self, client: OldClient) -> None:
        if client.is_gone or not client.must_join:
            return
        if not client.is_cooperative:
            client.owned = NOTHING
        join = Join(
            protocol_type="consumer",
            protocols=(("any", self.subscription(client)),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=client.member_id,
            instance_id=client.instance_id,
            takes_id_first=True,
        )

        def new_id() -> str:
            return str(next(self.ids))

        try:
            joined = classic_members.join(self.group, join, self.storm.view, new_id, self.now_ms)
        except MemberIdRequired as error:
            client.member_id = error.member_id
            return
        except UnknownMember:
            client.member_id, client.generation, client.owned = "", -1, NOTHING
            return
        except ChordMQError:
            client.is_gone, client.owned = True, NOTHING
            return
        self.collect(lambda: self.joined(client, joined))

    def subscription(self, client: OldClient) -> bytes:
        owned: dict[str, list[int]] = {}
        for name, index in sorted(classic_members.to_names(client.owned, self.storm.view)):
            owned.setdefault(name, []).append(index)
        message = ConsumerProtocolSubscription(
            topics=sorted(client.topics),
            owned_partitions=[
                ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=indexes)
                for name, indexes in owned.items()
            ],
        )
        return b"\x00\x01" + encode(message, 1)

    def joined(self, client: OldClient, joined: Joined) -> None:
        client.member_id = joined.member_id
        client.generation = joined.generation
        client.must_join, client.must_sync = False, True

    @rule(client=old_clients)
    def sync(self, client: OldClient) -> None:
        if client.is_gone or not client.must_sync:
            return
        sync = Sync(member=self.identity(client), assignments={})
        try:
            synced = classic_members.sync(self.group, sync, self.storm.view, self.now_ms)
        except ChordMQError as error:
            self.refused(client, error)
            return
        self.collect(lambda: self.synced(client, synced))

    def identity(self, client: OldClient) -> Identity:
        return Identity(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
        )

    def synced(self, client: OldClient, synced: Synced) -> None:
        if client.is_gone or not client.must_sync:
            return
        named = read_assignment(synced.assignment)
        assert named is not None
        before, client.owned = client.owned, classic_members.to_places(named, self.storm.view)
        client.must_sync = False
        if client.is_cooperative and not before <= client.owned:
            client.must_join = True  # others wait for what it has given up

    @rule(client=old_clients)
    def old_heartbeat(self, client: OldClient) -> None:
        if client.is_gone or client.must_join or client.must_sync:
            return
        try:
            classic_members.heartbeat(self.group, self.identity(client), self.now_ms)
        except ChordMQError as error:
            self.refused(client, error)

    def refused(self, client: OldClient, error: ChordMQError) -> None:
        client.must_join, client.must_sync = True, False
        if not isinstance(error, RebalanceInProgress):
            client.owned, client.generation = NOTHING, -1
        if isinstance(error, UnknownMember):
            client.member_id = ""

    @rule(client=old_clients)
    def old_leave(self, client: OldClient) -> None:
        if not client.is_gone and client.member_id:
            client.is_gone, client.owned = True, NOTHING
            self.group.remove([Leaver(member_id=client.member_id)])
            self.collect(lambda: None)

    # What happens around them.

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 5))
    def grow(self, name: str, partitions: int) -> None:
        self.storm.put(name, partitions)

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        gone = self.storm.topics.get(name)
        self.storm.remove(name)
        if gone is not None:  # a client learns of it from its metadata
            for client in self.readers():
                client.owned = frozenset(p for p in client.owned if p[0] != gone.id)

    @rule(ms=st.sampled_from([1, 500, 1_000, 3_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.group.tick(self.now_ms)
        self.collect(lambda: None)
        deadline_ms = self.group.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    def readers(self) -> Iterator[Client | OldClient]:
        yield from self.everyone
        yield from self.everyone_old

    def collect(self, deliver: Deliver) -> None:
        self.unlogged.append((self.group.take_outbox(), deliver))

    @rule()
    def write(self) -> None:
        """Let the log finish its oldest write, and answer."""
        if self.unlogged:
            records, deliver = self.unlogged.pop(0)
            self.log += records
            self.group.confirm(records)
            deliver()

    @rule()
    def write_all(self) -> None:
        while self.unlogged:
            self.write()

    @rule()
    def fail_to_write(self) -> None:
        """Have the log refuse a write; those behind it go with it."""
        if self.unlogged:
            self.unlogged.clear()
            self.group.lose(self.now_ms)
            for client in self.everyone:
                client.reported = None

    @rule()
    def crash(self) -> None:
        """Begin again with what the log holds."""
        self.unlogged.clear()
        logged = self.group._logged
        self.group = self.new_group()
        for record in self.log:
            self.group.replay(record)
        assert vars(self.group.image) == vars(logged), "the log tells another story than memory"
        self.group.wake(self.now_ms)
        for client in self.everyone:
            client.reported = None

    # What must always be so.

    @invariant()
    def nobody_reads_what_another_has(self) -> None:
        image = self.group.image
        held = [place for holding in image.holdings.values() for place in holding.all]
        assert len(held) == len(set(held)), "two members hold the same partition"
        assert set(held) == set(image.holders)
        for client in self.everyone:
            holding = image.holding(client.member_id)
            if client.member_id in image.members and client.epoch == holding.epoch:
                assert client.owned <= holding.all, "a client reads what it does not hold"
        for old in self.everyone_old:
            holding = image.holding(old.member_id)
            if old.member_id in image.members and old.generation == holding.epoch:
                assert old.owned <= holding.all, "a classic client reads what it does not hold"

    @invariant()
    def epochs_are_in_order(self) -> None:
        image = self.group.image
        assert image.target_epoch <= image.epoch
        assert all(h.epoch <= image.target_epoch for h in image.holdings.values())
        assert image.targets.keys() <= image.members.keys() >= image.holdings.keys()

    def teardown(self) -> None:
        """When the storm is over, every partition that somebody wants has one reader."""
        self.write_all()
        for _ in range(ROUNDS_MAX):
            self.now_ms += SESSION_MS // 4
            self.group.tick(self.now_ms)
            self.collect(lambda: None)
            for client in self.everyone:
                self.adopt(client)
                self.beat(client, is_lost=False)
            for old in self.everyone_old:
                self.join(old)
                self.write_all()
                self.sync(old)
                self.old_heartbeat(old)
            self.write_all()
        # A static member that has left for now is out by then, and so is who has vanished.
        assert self.group.state in (ConsumerState.STABLE, ConsumerState.EMPTY)
        image = self.group.image
        owned = [
            place
            for client in self.readers()
            if not client.is_gone and client.member_id in image.members
            for place in client.owned
        ]
        wanted = {
            (topic.id, index)
            for member in image.members.values()
            for name in self.group.subscribed(member, self.storm.view)
            if (topic := self.storm.topics.get(name)) is not None
            for index in range(topic.partitions)
        }
        assert sorted(owned) == sorted(wanted)


ConsumerGroupHistory.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)
TestConsumerGroupHistory = ConsumerGroupHistory.TestCase
"""C4: whatever happens, no partition has two readers, and none is left without one."""

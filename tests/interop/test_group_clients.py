"""Consumer groups of unmodified clients: eager, cooperative, static, mixed, and killed."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.interop.conftest import CreateTopic
from tests.running_node import RunningNode
from tests.wire import OFFSET_COMMIT, OFFSET_FETCH, Wire

DEADLINE_S = 60.0
SHORT_SESSIONS = {"broker.group.min.session.timeout.ms": "500"}

MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 2000,
                     "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest"})
consumer.subscribe([topic], on_assign=lambda c, parts: print("assigned", flush=True))
while True:
    consumer.poll(1)
"""


class Member:
    """A librdkafka consumer that keeps its own account of what it is given."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.values: list[bytes] = []
        self.errors: list[KafkaError] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 200,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(part.partition for part in partitions)))

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(part.partition for part in partitions)))

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is None:
            return
        error = message.error()
        if error is not None:
            self.errors.append(error)
        else:
            self.values.append(message.value() or b"")

    def partitions(self) -> set[int]:
        return {part.partition for part in self.consumer.assignment()}


@contextmanager
def members(count: int, *args: Any, **settings: Any) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        crew = [Member(*args, **settings) for _ in range(count)]
        for member in crew:
            stack.callback(member.consumer.close)
        yield crew


def until(is_so: Callable[[], bool], *crew: Member) -> None:
    """Poll the members until something is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, [member.events for member in crew]
        for member in crew:
            member.poll()


def share(crew: list[Member], count: int) -> Callable[[], bool]:
    """Return whether every partition belongs to exactly one member and none goes without."""

    def is_shared() -> bool:
        parts = [member.partitions() for member in crew]
        return all(parts) and sorted(n for part in parts for n in part) == list(range(count))

    return is_shared


def produce(bootstrap: str, topic: str, values: list[str], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % partitions)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go_and_every_partition_is_always_somebodys(
    bootstrap: str, create_topic: CreateTopic, name: str, strategy: str
) -> None:
    """C4: three members join one after the other, and one leaves."""
    topic = create_topic(partitions=6)
    with members(3, bootstrap, name, topic, partition_assignment_strategy=strategy) as crew:
        until(share(crew, 6), *crew)
        last = crew.pop()
        last.consumer.close()
        until(share(crew, 6), *crew)
        produce(bootstrap, topic, [f"v{n}" for n in range(60)], 6)
        wanted = {b"v%d" % n for n in range(60)}
        until(lambda: {v for m in crew for v in m.values} == wanted, *crew)


def test_a_cooperative_member_keeps_what_it_need_not_give_away(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    """C4: cooperative rebalancing takes from the first member only what moves to the second."""
    topic = create_topic(partitions=4)
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    with members(1, bootstrap, name, topic, **strategy) as (first,):
        until(lambda: first.partitions() == {0, 1, 2, 3}, first)
        with members(1, bootstrap, name, topic, **strategy) as (second,):
            until(share([first, second], 4), first, second)
            revoked = [parts for kind, parts in first.events if kind == "revoked" and parts]
            assert [len(parts) for parts in revoked] == [2]
            assert second.partitions() == set(revoked[0])


def test_a_static_member_that_restarts_disturbs_nobody(
    bootstrap: str, create_topic: CreateTopic, name: str, admin: AdminClient
) -> None:
    """C4: static membership; it comes back to its partitions without a rebalance."""
    topic = create_topic(partitions=4)
    with members(1, bootstrap, name, topic, group_instance_id="one") as (one,):
        two = Member(bootstrap, name, topic, group_instance_id="two")
        until(share([one, two], 4), one, two)
        events, held = list(one.events), two.partitions()
        two.consumer.close()
        with members(1, bootstrap, name, topic, group_instance_id="two") as (again,):
            until(lambda: again.partitions() == held, one, again)
            assert one.events == events
            (group,) = (f.result(60) for f in admin.describe_consumer_groups([name]).values())
            assert group.state is ConsumerGroupState.STABLE
            assert {member.group_instance_id for member in group.members} == {"one", "two"}


def test_a_second_process_with_the_same_instance_id_fences_the_first(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    """C4: FENCED_INSTANCE_ID."""
    topic = create_topic()
    with members(1, bootstrap, name, topic, group_instance_id="i") as (first,):
        until(lambda: first.partitions() == {0}, first)
        with members(1, bootstrap, name, topic, group_instance_id="i") as (second,):
            until(lambda: second.partitions() == {0}, second)
            until(lambda: bool(first.errors), first, second)
            assert first.errors[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_the_partitions_of_a_killed_member_pass_to_the_others(
    start_node: StartNode, name: str
) -> None:
    """C4: the session time-out."""
    bootstrap = start_node(SHORT_SESSIONS).bootstrap
    produce(bootstrap, name, ["x"], 1)
    command = [sys.executable, "-c", MEMBER, bootstrap, name, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"assigned\n"
        finally:
            process.send_signal(signal.SIGKILL)
    with members(1, bootstrap, name, name) as (heir,):
        until(lambda: heir.partitions() == {0}, heir)


def test_members_outlive_a_crash_of_the_node_without_a_rebalance(
    own_node: RunningNode, name: str
) -> None:
    """A5, C4: kill -9; members heartbeat on in their generation, and commits are still there."""
    bootstrap = own_node.bootstrap
    produce(bootstrap, name, ["a", "b"], 1)
    with members(1, bootstrap, name, name, session_timeout_ms=60_000) as (member,):
        until(lambda: len(member.values) == 2, member)
        member.consumer.commit(asynchronous=False)
        own_node.restart()
        produce(bootstrap, name, ["c"], 1)
        until(lambda: member.values == [b"a", b"b", b"c"], member)
        member.consumer.commit(asynchronous=False)
        assert member.events == [("assigned", [0])]
    with members(1, bootstrap, name, name) as (later,):
        produce(bootstrap, name, ["d"], 1)
        until(lambda: later.values == [b"d"], later)


def test_every_acknowledged_commit_survives_kill_9(own_node: RunningNode, name: str) -> None:
    """A5: the offset found after the crash is the last one acknowledged, or one just after it."""
    produce(own_node.bootstrap, name, ["x"], 1)
    answers: list[ErrorCode] = []
    killer = threading.Timer(0.5, own_node.kill9)
    with members(1, own_node.bootstrap, f"{name}-unused", name) as (client,):
        until(lambda: len(client.values) == 1, client)
    with Wire(own_node.address) as wire:
        answers.append(commit(wire, name, offset=0))
        killer.start()
        with contextlib.suppress(ConnectionError, AssertionError):
            while True:
                answers.append(commit(wire, name, offset=len(answers)))
    killer.join()
    assert set(answers) == {ErrorCode.none}
    own_node.start()
    with Wire(own_node.address) as wire:
        asked = [{"group_id": name, "topics": None}]
        (found,) = wire.call(OFFSET_FETCH, 8, groups=asked).groups[0].topics[0].partitions
    assert found.committed_offset in (len(answers) - 1, len(answers))


def commit(wire: Wire, name: str, offset: int) -> ErrorCode:
    rows = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    answer = wire.call(
        OFFSET_COMMIT,
        8,
        group_id=name,
        generation_id_or_member_epoch=-1,
        topics=[{"name": name, "partitions": rows}],
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def test_clients_of_three_kinds_share_one_group(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    """C1, C4: librdkafka, kafka-python and aiokafka each take a part of one topic."""
    topic = create_topic(partitions=3)
    stopped = threading.Event()
    shared = asyncio.Event()
    loop = asyncio.get_running_loop()
    # All keys are there from the beginning: three threads look at all of them.
    held: dict[str, set[int]] = {"librdkafka": set(), "kafka-python": set(), "aiokafka": set()}

    def note(client: str, assignment: Iterable[Any]) -> None:
        held[client] = {part.partition for part in assignment}
        if sorted(map(sorted, held.values())) == [[0], [1], [2]]:
            loop.call_soon_threadsafe(shared.set)

    def librdkafka() -> None:
        with members(1, bootstrap, name, topic, partition_assignment_strategy="range") as (own,):
            while not stopped.is_set():
                own.poll()
                note("librdkafka", own.consumer.assignment())

    def kafka_python() -> None:
        own = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=name, heartbeat_interval_ms=200
        )
        while not stopped.is_set():
            own.poll(50)
            note("kafka-python", own.assignment())
        own.close()

    async def aiokafka() -> None:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=name,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[RangePartitionAssignor],
        ) as own:
            while not stopped.is_set():
                await own.getmany(timeout_ms=50)
                note("aiokafka", own.assignment())

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(librdkafka))
        tasks.create_task(asyncio.to_thread(kafka_python))
        tasks.create_task(aiokafka())
        try:
            await asyncio.wait_for(shared.wait(), DEADLINE_S)
        finally:
            stopped.set()


def test_an_administrator_sees_resets_and_deletes_groups(
    bootstrap: str, create_topic: CreateTopic, name: str, admin: AdminClient
) -> None:
    """C1, C2: ListGroups, DescribeGroups, OffsetFetch, OffsetCommit, DeleteGroups by librdkafka."""
    topic = create_topic(partitions=2)
    produce(bootstrap, topic, [f"v{n}" for n in range(10)], 2)
    with members(1, bootstrap, name, topic, client_id="me") as (member,):
        until(lambda: len(member.values) == 10, member)
        member.consumer.commit(asynchronous=False)
        listed = {g.group_id: g.state for g in admin.list_consumer_groups().result(60).valid}
        assert listed[name] is ConsumerGroupState.STABLE
        (group,) = (f.result(60) for f in admin.describe_consumer_groups([name]).values())
        (described,) = group.members
        assert (described.client_id, described.host) == ("me", "/127.0.0.1")
        assert {p.partition for p in described.assignment.topic_partitions} == {0, 1}
        with pytest.raises(KafkaException) as raised:
            admin.delete_consumer_groups([name])[name].result(60)
        assert raised.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([wanted])[name].result(60)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
    found = {p.partition: p.offset for p in offsets[name].result(60).topic_partitions}
    assert found == {0: 2, 1: 5}
    admin.delete_consumer_groups([name])[name].result(60)
    assert name not in {g.group_id for g in admin.list_consumer_groups().result(60).valid}

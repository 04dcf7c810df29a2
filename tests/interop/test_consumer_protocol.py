"""Groups of the consumer protocol (KIP-848) with the Java client and librdkafka, unmodified."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import StartNode
from tests.interop.group_member import GroupMember, share, starting, until
from tests.running_node import RunningNode

Start = Callable[..., GroupMember]

QUICK = {
    "broker.group.consumer.heartbeat.interval.ms": "100",
    "broker.group.consumer.session.timeout.ms": "60000",
    "broker.group.min.session.timeout.ms": "500",
}
PARTITIONS = 6
LOT = 200
BOTH = pytest.mark.parametrize("client", ["java", "librdkafka"])


@pytest.fixture
def node(start_node: StartNode) -> RunningNode:
    """Give a node on which nobody waits for seconds to learn of a change."""
    return start_node(QUICK)


@pytest.fixture
def start() -> Iterator[Start]:
    """Give a function that starts group members."""
    with starting() as start:
        yield start


def create(node: RunningNode, name: str, partitions: int = PARTITIONS) -> str:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    return name


def produce(node: RunningNode, topic: str, values: range, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % partitions)
    assert producer.flush(60) == 0


def total(*members: GroupMember) -> Counter[str]:
    return sum((member.values for member in members), Counter())


def all_read(values: range, *members: GroupMember) -> Callable[[], bool]:
    return lambda: total(*members).keys() >= {str(value) for value in values}


def all_committed(node: RunningNode, group: str, count: int) -> Callable[[], bool]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})

    def is_committed() -> bool:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        parts = asked[group].result(60).topic_partitions or []
        committed: int = sum(max(part.offset, 0) for part in parts)
        return committed == count

    return is_committed


@BOTH
def test_members_share_partitions_and_take_over_from_one_that_is_killed(
    start_node: StartNode, name: str, start: Start, client: str
) -> None:
    """C4: join, second member, crash of a member, new partitions, leave; each record is read."""
    # Soon over, yet longer than a busy machine keeps a member from its heartbeat.
    node = start_node({**QUICK, "broker.group.consumer.session.timeout.ms": "10000"})
    topic = create(node, name)
    settings = {"group_id": name, "group_protocol": "consumer"}
    produce(node, topic, range(100))
    first = start(client, node.bootstrap, topic, **settings)
    until(share(PARTITIONS, first), first)
    until(all_read(range(100), first), first)
    second = start(client, node.bootstrap, topic, **settings)
    until(share(PARTITIONS, first, second), first, second)
    assert len(first.partitions()) == len(second.partitions()) == PARTITIONS // 2
    produce(node, topic, range(100, 200))
    until(all_read(range(200), first, second), first, second)
    assert set(total(first, second).values()) == {1}, "nothing was read twice"
    second.kill()
    until(share(PARTITIONS, first), first)
    produce(node, topic, range(200, 300))
    until(all_read(range(300), first, second), first)
    first.leave()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    (group,) = (done.result(60) for done in admin.describe_consumer_groups([name]).values())
    assert not group.members


@BOTH
def test_a_static_member_is_back_in_its_place_without_a_rebalance(
    start_node: StartNode, name: str, start: Start, client: str
) -> None:
    """C4: the partitions of a static member wait for it, as long as its session lasts."""
    node = start_node(QUICK)
    topic = create(node, name)
    settings = {"group_id": name, "group_protocol": "consumer"}
    other = start(client, node.bootstrap, topic, **settings)
    first = start(client, node.bootstrap, topic, group_instance_id="i", **settings)
    until(share(PARTITIONS, other, first), other, first)
    before, seen = first.partitions(), list(other.events)
    first.leave()
    again = start(client, node.bootstrap, topic, group_instance_id="i", **settings)
    until(lambda: again.partitions() == before, again)
    assert other.events == seen


@BOTH
def test_a_pattern_follows_topics_that_come(
    node: RunningNode, name: str, start: Start, client: str
) -> None:
    """C4: subscriptions by regular expression, resolved on the server."""
    create(node, f"{name}-a", 2)
    create(node, f"other-{name}", 2)
    pattern = {"java": f"/{name}-.*/", "librdkafka": f"^{name}-.*"}[client]
    settings = {"group_id": name, "group_protocol": "consumer"}
    if client == "librdkafka":
        settings["topic_metadata_refresh_interval_ms"] = "500"
    member = start(client, node.bootstrap, pattern, **settings)
    until(lambda: member.partitions() == {f"{name}-a-0", f"{name}-a-1"}, member)
    create(node, f"{name}-b", 1)
    until(lambda: f"{name}-b-0" in member.partitions(), member)
    assert len(member.partitions()) == 3


@BOTH
def test_members_do_not_notice_that_the_node_was_killed(
    node: RunningNode, name: str, start: Start, client: str
) -> None:
    """C4: a node that is back within the session finds its members where they were."""
    topic = create(node, name)
    settings = {"group_id": name, "group_protocol": "consumer", "reconnect_backoff_max_ms": "200"}
    members = [start(client, node.bootstrap, topic, **settings) for _ in range(2)]
    until(share(PARTITIONS, *members), *members)
    produce(node, topic, range(100))
    until(all_read(range(100), *members), *members)
    seen = [list(member.events) for member in members]
    node.restart()
    produce(node, topic, range(100, 200))
    until(all_read(range(200), *members), *members)
    assert [list(member.events) for member in members] == seen


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        pytest.param("java", "range", marks=pytest.mark.slow),
        ("java", "cooperative-sticky"),
        ("librdkafka", "range"),
        ("librdkafka", "cooperative-sticky"),
    ],
)
def test_a_group_changes_its_protocol_and_back_while_it_reads(
    node: RunningNode, name: str, start: Start, client: str, strategy: str
) -> None:
    """C4: online migration; members are replaced one by one, nothing is lost, little repeated."""
    topic = create(node, name)
    strategies = {
        "range": "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }
    strategy = strategies[strategy] if client == "java" else strategy
    classic = {
        "group_id": name,
        "group_protocol": "classic",
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": "100",
        "session_timeout_ms": "60000",
    }
    consumer = {"group_id": name, "group_protocol": "consumer"}
    everyone: list[GroupMember] = [start(client, node.bootstrap, topic, **classic) for _ in "ab"]
    until(share(PARTITIONS, *everyone), *everyone)
    # For a partition without a committed offset librdkafka asks where it begins, asks again if a
    # rebalance comes between, and goes back there with a late answer even when it reads already.
    produce(node, topic, range(LOT))
    produced = LOT
    until(all_committed(node, name, produced), *everyone)
    running = list(everyone)
    for settings in (consumer, consumer, classic, classic):
        produce(node, topic, range(produced, produced + LOT))
        produced += LOT
        running.append(start(client, node.bootstrap, topic, **settings))
        everyone.append(running[-1])
        until(share(PARTITIONS, *running), *running)
        produce(node, topic, range(produced, produced + LOT))
        produced += LOT
        running.pop(0).leave()
        until(share(PARTITIONS, *running), *running)
    produce(node, topic, range(produced, produced + LOT))
    produced += LOT
    until(all_read(range(produced), *everyone), *everyone)
    # Members commit at once what they read: of all lots, the one that was read and not yet
    # committed when its partitions moved may be read again, and that once.
    assert max(total(*everyone).values()) <= 2
    repeated = sum(count > 1 for count in total(*everyone).values())
    assert repeated <= LOT, f"{repeated} of {produced} records were read twice"

"""Three nodes and a real etcd, as operators and admin clients see them."""

import json
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from functools import cache, partial
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.cluster.running_cluster import CALM, RunningCluster, until
from tests.interop.program import ROOT, built, installed, run
from tests.running_node import RunningNode

JAVA = ROOT / ".cache" / "interop" / "java"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    settings = CALM | {"cluster.leader_balance_s": "0"}
    with RunningCluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@cache
def admin(node: RunningNode) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def create(node: RunningNode, topic: NewTopic) -> None:
    admin(node).create_topics([topic])[topic.topic].result(60)


def everywhere(cluster: RunningCluster, is_so: Callable[[RunningNode], bool]) -> None:
    """Wait until it is so on each node."""
    for node in cluster.nodes.values():
        until(partial(is_so, node))


def partitions(node: RunningNode, topic: str) -> dict[int, Any]:
    # Of all topics, for whoever asks for one by its name may get it made.
    found = admin(node).list_topics(timeout=60).topics
    return dict(found[topic].partitions) if topic in found else {}


def count(node: RunningNode, topic: str) -> int:
    """Return how many partitions of a topic this very node knows of."""
    rows = http(node, "/v1/topics")["topics"]
    return sum(row["partitions"] for row in rows if row["name"] == topic)


def http(node: RunningNode, path: str) -> Any:
    with urllib.request.urlopen(f"{node.http}{path}", timeout=60) as answer:
        return json.load(answer)


def test_a_topic_is_soon_on_all_nodes(cluster: RunningCluster, name: str) -> None:
    """A7, A9: created on one node, described, changed and deleted on the others."""
    one, two, three = cluster.nodes.values()
    create(one, NewTopic(name, 6, 3))
    everywhere(cluster, lambda node: count(node, name) == 6)

    admin(two).create_partitions([NewPartitions(name, 8)])[name].result(60)
    everywhere(cluster, lambda node: count(node, name) == 8)
    leaders = {part.leader for part in partitions(three, name).values()}
    assert leaders == {1, 2, 3}
    for part in partitions(three, name).values():
        assert sorted(part.replicas) == sorted(part.isrs) == [1, 2, 3]
        assert part.leader == part.replicas[0]

    admin(three).delete_topics([name])[name].result(60)
    everywhere(cluster, lambda node: count(node, name) == 0)
    everywhere(cluster, lambda node: not list((node.data / "topics").glob(f"{name}-*")))


def test_settings_and_acls_reach_every_node(cluster: RunningCluster, name: str) -> None:
    one, two, three = cluster.nodes.values()
    create(one, NewTopic(name, 1, 3))
    change = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
    admin(two).incremental_alter_configs([resource])[resource].result(60)

    def retention() -> str:
        rows = admin(three).describe_configs([resource])[resource].result(60)
        return str(rows["retention.ms"].value)

    until(lambda: retention() == "12345")
    binding = AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ann", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin(two).create_acls([binding])[binding].result(60)
    until(lambda: name in json.dumps(http(three, "/v1/acls")))


def test_the_same_topic_is_created_once_by_whoever_is_quicker(
    cluster: RunningCluster, name: str
) -> None:
    """Compare-and-set: two nodes at once, one topic, one id."""
    clients = [admin(node) for node in cluster.nodes.values()]
    futures = [client.create_topics([NewTopic(name, 3, 3)])[name] for client in clients]
    outcomes = []
    for future in futures:
        try:
            future.result(60)
            outcomes.append("created")
        except KafkaException as error:
            outcomes.append(error.args[0].name())

    assert sorted(outcomes) == ["TOPIC_ALREADY_EXISTS", "TOPIC_ALREADY_EXISTS", "created"]
    everywhere(cluster, lambda node: count(node, name) > 0)
    ids = {http(node, f"/v1/topics/{name}")["id"] for node in cluster.nodes.values()}
    assert len(ids) == 1


@pytest.mark.interop
def test_the_java_admin_client_sees_nodes_moves_partitions_and_elects_leaders(
    cluster: RunningCluster, name: str
) -> None:
    """C2: DescribeCluster, manual assignment, reassignment, ElectLeaders, UnregisterBroker."""
    classpath = f"{built(JAVA / 'classes')}:{built(JAVA / 'lib')}/*"
    options = (
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    )
    run([installed("java"), *options, "-cp", classpath, "ClusterCheck", cluster.bootstrap, name])

    def holders() -> set[int]:
        nodes = cluster.nodes.items()
        return {number for number, node in nodes if (node.data / "topics" / f"{name}-0").exists()}

    until(lambda: holders() == {1, 3})


def test_http_may_be_asked_of_any_node(cluster: RunningCluster, name: str) -> None:
    """What only another node can answer, that one is asked for; no client has to go there."""
    create(cluster.nodes[1], NewTopic(name, replica_assignment=[[2]], num_partitions=1))
    everywhere(cluster, lambda node: count(node, name) > 0)
    with httpx.Client(timeout=60) as client:
        for number, node in cluster.nodes.items():
            path = f"{node.http}/v1/topics/{name}/records"
            sent = client.post(path, json={"value": f"from {number}"})
            assert sent.status_code in (HTTPStatus.OK, HTTPStatus.CREATED), sent.text
        for node in cluster.nodes.values():
            got = client.get(f"{node.http}/v1/topics/{name}/records?partition=0&position=earliest")
            values = [record["value"] for record in got.json()["records"]]
            assert values == ["from 1", "from 2", "from 3"]
            (row,) = client.get(f"{node.http}/v1/topics/{name}").json()["partitions"]
            assert (row["leader"], row["replicas"], row["in_sync"]) == (2, [2], [2])
            assert row["held"] == (node is cluster.nodes[2])
        batches = f"/v1/topics/{name}/partitions/0/batches"
        moved = httpx.get(cluster.nodes[1].http + batches, timeout=60)
        assert moved.status_code == HTTPStatus.TEMPORARY_REDIRECT, "bytes are got from the leader"
        assert moved.headers["location"] == cluster.nodes[2].http + batches


def test_more_replicas_than_nodes_are_refused(cluster: RunningCluster, name: str) -> None:
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        create(cluster.nodes[1], NewTopic(name, 1, 4))
    with pytest.raises(KafkaException, match="INVALID_REPLICA_ASSIGNMENT"):
        create(cluster.nodes[1], NewTopic(name, replica_assignment=[[1, 9]], num_partitions=1))


@pytest.mark.slow
def test_a_killed_controller_is_replaced_and_a_store_that_is_away_stops_no_traffic(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A9: leases decide who lives; produce and fetch need no store."""
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        create(cluster.nodes[1], NewTopic("t", 3, 3))
        controller = until(lambda: http(cluster.nodes[1], "/v1/cluster")["nodes"])
        victim = next(row["id"] for row in controller if row["controller"])
        cluster.nodes[victim].kill9()
        others = [node for number, node in cluster.nodes.items() if number != victim]

        def replaced() -> bool:
            rows = http(others[0], "/v1/cluster")["nodes"]
            return any(row["controller"] and row["id"] != victim for row in rows)

        until(replaced)
        until(lambda: all(p.leader != victim for p in partitions(others[0], "t").values()))

        cluster.etcd.kill9(0)
        acked: list[Any] = []
        producer = Producer(
            {"bootstrap.servers": others[0].bootstrap, "acks": "all", "log_level": 0}
        )
        # As long as nodes can be sure of their leases; then they stop, and do not lie.
        producer.produce("t", b"without a store", on_delivery=lambda e, m: acked.append(e))
        producer.flush(60)
        assert acked == [None]
        with pytest.raises(KafkaException):
            create(others[0], NewTopic("u", 1, 2))

        cluster.etcd.start(0)
        until(lambda: _can_create(others[0], f"v-{time.monotonic_ns()}"))


@pytest.mark.slow
def test_nodes_wait_for_a_store_that_comes_later(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cluster = RunningCluster(tmp_path_factory.mktemp("cluster"), count=1)
    node = cluster.nodes[1]
    try:
        node.start(wait=False)
        until(lambda: node.answers("/healthz"))
        assert not node.is_ready()
        with cluster.etcd:
            node.wait_until_ready()
            create(node, NewTopic("t", 1, 1))
            assert node.stop() == 0
    finally:
        cluster.close()


def _can_create(node: RunningNode, topic: str) -> bool:
    try:
        create(node, NewTopic(topic, 1, 2))
    except KafkaException:
        return False
    return True

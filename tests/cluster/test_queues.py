"""AMQP on several nodes: the queues are the same at each, and outlive the node that has them."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.cluster.running_cluster import CALM, PATIENCE_S, RunningCluster, until
from tests.running_node import RunningNode

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("amqp"), settings=CALM) as running:
        yield running


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses."""
    return uuid.uuid4().hex[:12]


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def channel(clients: ExitStack, node: RunningNode) -> BlockingChannel:
    """Open a connection to a node, as often as it takes: a leader may have to be found first."""
    host, port = node.amqp_address
    parameters = pika.ConnectionParameters(
        host, port, socket_timeout=PATIENCE_S, stack_timeout=PATIENCE_S
    )

    def connected() -> pika.BlockingConnection | None:
        with suppress(AMQPError):
            return pika.BlockingConnection(parameters)
        return None

    connection = until(connected)
    assert connection is not None
    clients.callback(_close, connection)
    return connection.channel()


def _close(connection: pika.BlockingConnection) -> None:
    with suppress(AMQPError):
        connection.close()


def get(channel: BlockingChannel, queue: str) -> bytes | None:
    method, _, body = channel.basic_get(queue, auto_ack=True)
    return None if method is None else body


def owner_of(cluster: RunningCluster) -> int:
    """Return the number of the node that looks after the queues."""
    for number, node in cluster.nodes.items():
        if httpx.get(f"{node.http}/v1/queues", timeout=60).status_code == 200:
            return number
    raise AssertionError("nobody has the queues")


def test_queues_are_the_same_at_all_nodes(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E4, A4: declared, bound, filled and read at different nodes."""
    first, second, third = (channel(clients, node) for node in cluster.nodes.values())
    first.exchange_declare(name, "topic", durable=True)
    second.queue_declare(name, durable=True)
    third.queue_bind(name, name, "a.#")
    for number, one in enumerate((first, second, third)):
        one.confirm_delivery()
        one.basic_publish(name, f"a.{number}", b"%d" % number, PERSISTENT, mandatory=True)
    assert [get(one, name) for one in (third, first, second)] == [b"0", b"1", b"2"]
    assert get(first, name) is None


def test_a_stream_is_read_from_its_beginning_at_all_nodes(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E4, A4: whoever leads its topic, and whoever looks after the queues."""
    first, *others = (channel(clients, node) for node in cluster.nodes.values())
    first.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    first.exchange_declare(f"{name}-e", "fanout", durable=True)
    first.queue_bind(name, f"{name}-e")
    first.confirm_delivery()
    for exchange, key in (("", name), (f"{name}-e", "")):
        for number in range(10):
            first.basic_publish(exchange, key, b"%d" % number, PERSISTENT)
    for one in (first, *others):
        one.basic_qos(prefetch_count=3)
        found: list[int] = []
        for method, _, body in one.consume(
            name, arguments={"x-stream-offset": "first"}, inactivity_timeout=PATIENCE_S
        ):
            assert method is not None, f"{len(found)} messages came"
            one.basic_ack(method.delivery_tag)
            found.append(int(body))
            if len(found) == 20:
                break
        assert found == [*range(10), *range(10)]


def test_consumers_at_several_nodes_share_a_queue(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E4: each message goes to one consumer; what one has not acknowledged another gets."""
    writer, *readers = (channel(clients, node) for node in cluster.nodes.values())
    writer.queue_declare(name, durable=True)
    for reader in readers:
        reader.basic_qos(prefetch_count=1)
    first = next(readers[0].consume(name, inactivity_timeout=0.01))
    assert first == (None, None, None)
    for number in range(10):
        writer.basic_publish("", name, b"%d" % number, PERSISTENT)
    held = until(lambda: _delivered(readers[0], name))
    assert held is not None
    assert held[1] == b"0"
    got = [until(lambda: _acknowledged(readers[1], name)) for _ in range(9)]
    assert got == [b"%d" % number for number in range(1, 10)]
    readers[0].connection.close()
    assert until(lambda: _acknowledged(readers[1], name)) == b"0"


def _delivered(reader: BlockingChannel, queue: str) -> tuple[int, bytes] | None:
    method, _, body = next(reader.consume(queue, inactivity_timeout=0.5))
    return None if method is None else (method.delivery_tag, body)


def _acknowledged(reader: BlockingChannel, queue: str) -> bytes | None:
    found = _delivered(reader, queue)
    if found is None:
        return None
    reader.basic_ack(found[0])
    return found[1]


@pytest.mark.parametrize("victim", ["owner", pytest.param("entrance", marks=pytest.mark.slow)])
def test_kill_9_of_a_node_loses_no_confirmed_message(tmp_path: Path, victim: str) -> None:
    """E4, C13: queues, bindings and messages outlive the node that looks after them."""
    with RunningCluster(tmp_path) as cluster, ExitStack() as clients:
        writer = channel(clients, cluster.nodes[1])
        writer.exchange_declare("x", "fanout", durable=True)
        writer.queue_declare("q", durable=True)
        writer.queue_bind("q", "x")
        owner = owner_of(cluster)
        entrance = next(number for number in cluster.nodes if number != owner)
        lost = owner if victim == "owner" else entrance
        writer = channel(clients, cluster.nodes[lost])
        writer.confirm_delivery()
        for number in range(50):
            writer.basic_publish("x", "", b"%d" % number, PERSISTENT, mandatory=True)
        cluster.nodes[lost].kill9()
        left = [node for number, node in cluster.nodes.items() if number != lost]
        writer, reader = channel(clients, left[0]), channel(clients, left[1])
        writer.confirm_delivery()
        for number in range(50, 100):
            writer.basic_publish("x", "", b"%d" % number, PERSISTENT, mandatory=True)
        got = [until(lambda: _acknowledged(reader, "q")) for _ in range(100)]
        assert got == [b"%d" % number for number in range(100)]

"""Limits on connections and memory: who exceeds one is refused or slowed, others are served."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.faults.test_crash import create_topic
from tests.running_node import RunningNode
from tests.wire import FETCH, METADATA, Wire, fetch_fields, framed, record_batch, request

MIB = 1 << 20
ASK = framed(request(METADATA, 12, 1, {"topics": []}))


def is_served(connection: socket.socket) -> bool:
    """Ask for metadata; a refused connection ends instead of answering."""
    try:
        connection.sendall(ASK)
        return bool(connection.recv(4))
    except ConnectionError:
        return False


def connections(node: RunningNode, count: int, stack: ExitStack) -> Iterator[socket.socket]:
    for _ in range(count):
        connection = socket.create_connection(node.address, timeout=60)
        yield stack.enter_context(connection)


def test_connections_over_the_nodes_limit_are_refused(start_node: StartNode) -> None:
    """C11: those within the limit are served, and one that leaves makes room."""
    node = start_node({"kafka.connections_max": "20"})
    with ExitStack() as stack:
        accepted = list(connections(node, 20, stack))
        assert all(is_served(connection) for connection in accepted)
        refused = list(connections(node, 5, stack))
        assert not any(is_served(connection) for connection in refused)
        assert node.metric("chordmq_connections_refused_total") == 5
        accepted.pop().close()
        while not is_served(next(connections(node, 1, stack))):
            pass


def test_connections_over_the_limit_of_one_address_are_refused(start_node: StartNode) -> None:
    """C11: another address still gets in."""
    node = start_node({"kafka.connections_per_address_max": "10"})
    with ExitStack() as stack:
        accepted = list(connections(node, 10, stack))
        assert all(is_served(connection) for connection in accepted)
        assert not is_served(next(connections(node, 1, stack)))
        elsewhere = socket.create_connection(
            node.address, timeout=60, source_address=("127.0.0.2", 0)
        )
        assert is_served(stack.enter_context(elsewhere))


def test_five_hundred_connections_are_all_answered(own_node: RunningNode) -> None:
    """C11: also when each is used again after all the others; the benchmark opens 10,000."""
    before = own_node.resident_bytes()
    with ExitStack() as stack:
        opened = list(connections(own_node, 500, stack))
        for _ in range(2):
            for connection in opened:
                connection.sendall(ASK)
            for connection in opened:
                size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
                assert len(connection.recv(size, socket.MSG_WAITALL)) == size
        assert own_node.resident_bytes() - before < 60 * MIB


@pytest.mark.parametrize("newest", [64 * MIB, 0], ids=["in memory", "in files"])
def test_clients_that_never_read_hold_little_memory(
    start_node: StartNode, name: str, newest: int
) -> None:
    """C11: twenty clients ask for 20 MiB a hundred times each and take none of it."""
    settings = {"kafka.memory_max": 32 * MIB, "broker.log.memory.max.bytes": newest}
    node = start_node({setting: str(value) for setting, value in settings.items()})
    topic = create_topic(node, name)
    with Wire(node.address) as wire, ExitStack() as stack:
        for _ in range(20):
            answer = wire.produce(topic, record_batch([b"x" * (MIB - 1000)]))
            assert answer.error_code is ErrorCode.none
        before = node.resident_bytes()
        fields = fetch_fields(topic, 0, max_bytes=20 * MIB, partition_max_bytes=20 * MIB)
        asked = framed(request(FETCH, 12, 1, fields)) * 100
        for connection in connections(node, 20, stack):
            connection.sendall(asked)
        for _ in range(50):
            assert wire.call(METADATA, 12, topics=[]).brokers
            assert wire.fetch(topic, 0).error_code is ErrorCode.none
        assert node.resident_bytes() - before < 100 * MIB


def test_clients_that_never_finish_a_frame_hold_little_memory(
    start_node: StartNode, name: str
) -> None:
    """C11: the memory of all half-received frames together is bounded, small requests go on."""
    node = start_node({"kafka.memory_max": str(16 * MIB)})
    topic = create_topic(node, name)
    before = node.resident_bytes()
    with Wire(node.address) as wire, ExitStack() as stack:
        for connection in connections(node, 40, stack):
            connection.setblocking(False)
            connection.send((50 * MIB).to_bytes(4, "big") + bytes(100_000))
            push(connection, 5 * MIB)
        for number in range(50):
            assert wire.call(METADATA, 12, topics=[]).brokers
            assert wire.produce(topic, record_batch([b"v"])).base_offset == number
        assert node.resident_bytes() - before < 100 * MIB


def push(connection: socket.socket, size: int) -> None:
    """Send up to `size` bytes, as many as the peer takes without waiting."""
    chunk = bytes(MIB)
    try:
        while size > 0:
            size -= connection.send(chunk)
    except BlockingIOError:
        pass

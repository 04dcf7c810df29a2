"""MQTT on several nodes: a session is one, whichever node its client comes to."""

import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.cluster.devices import Device
from tests.cluster.running_cluster import CALM, RunningCluster, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("mqtt"), settings=CALM) as running:
        yield running


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses."""
    return uuid.uuid4().hex[:12]


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def device(
    clients: ExitStack, name: str, *, expiry_s: int = 600, in_browser: bool = False
) -> Device:
    one = Device(name, expiry_s=expiry_s, in_browser=in_browser)
    clients.callback(one.leave)
    return one


def owner_of(cluster: RunningCluster, client: str) -> int:
    """Return the number of the node that looks after a client's session."""
    for number, node in cluster.nodes.items():
        answer = httpx.get(f"{node.http}/v1/clients", timeout=60).json()
        if any(one["id"] == client for one in answer["clients"]):
            return number
    raise AssertionError(f"{client} is nowhere")


def test_a_message_reaches_subscribers_at_all_nodes(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E2, A4: a publish at one node is delivered at the others, once each."""
    readers = []
    for number, node in cluster.nodes.items():
        reader = device(clients, f"{name}-r{number}")
        reader.connect(node)
        reader.subscribe(f"{name}/a/#")
        readers.append(reader)
    for number, node in cluster.nodes.items():
        writer = device(clients, f"{name}-w{number}", expiry_s=0)
        writer.connect(node)
        for qos in (0, 1, 2):
            writer.publish(f"{name}/a/{number}", b"%d %d" % (number, qos), qos)
    wanted = sorted(b"%d %d" % (number, qos) for number in cluster.nodes for qos in range(3))
    for reader in readers:
        assert sorted(reader.take(len(wanted))) == wanted


def test_a_client_finds_its_session_at_any_node(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E3: subscriptions and missed messages wait for the client, wherever it comes."""
    writer = device(clients, f"{name}-w", expiry_s=0)
    writer.connect(cluster.nodes[1])
    reader = Device(f"{name}-r")
    for number, node in cluster.nodes.items():
        reader = device(clients, f"{name}-r")
        reader.connect(node)
        if number == 1:
            reader.subscribe(f"{name}/b/c", 2)
        assert reader.had_session == (number > 1)
        if number > 1:
            assert reader.next() == (f"{name}/b/c", b"missed %d" % number, 2)
        writer.publish(f"{name}/b/c", b"live %d" % number, 2)
        assert reader.next() == (f"{name}/b/c", b"live %d" % number, 2)
        reader.leave()
        writer.publish(f"{name}/b/c", b"missed %d" % (number + 1), 2)
    assert reader.got.empty()


def test_a_newer_connection_takes_over_from_another_node(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E3: one client id, one connection, in the whole cluster (MQTT-3.1.4-3)."""
    before = device(clients, name)
    before.connect(cluster.nodes[1])
    before.subscribe(f"{name}/t")
    after = device(clients, name)
    before.stay_away()  # or the two would take turns
    after.connect(cluster.nodes[2])
    until(lambda: not before.is_connected)
    after.publish(f"{name}/t", b"mine")
    assert after.next()[1] == b"mine"


def test_a_will_is_published_for_a_client_of_another_node(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E3: who goes without a word leaves a will, whichever node it was at."""
    heir = device(clients, f"{name}-heir")
    heir.connect(cluster.nodes[2])
    heir.subscribe(f"{name}/will/#")
    for number, node in cluster.nodes.items():
        gone = Device(f"{name}-{number}")
        gone.will(f"{name}/will/{number}", b"gone")
        gone.connect(node)
        gone.drop()
        assert heir.next()[:2] == (f"{name}/will/{number}", b"gone")


def test_retained_messages_are_known_at_all_nodes(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E2: what was kept at one node new subscribers get at the others."""
    writer = device(clients, f"{name}-w", expiry_s=0)
    writer.connect(cluster.nodes[1])
    writer.publish(f"{name}/kept", b"kept", retain=True)
    for number, node in cluster.nodes.items():
        reader = device(clients, f"{name}-{number}", expiry_s=0)
        reader.connect(node)
        reader.subscribe(f"{name}/kept")
        assert reader.next()[:2] == (f"{name}/kept", b"kept")


def test_workers_at_several_nodes_share_a_subscription(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E3: each message of a group goes to one of its clients, whichever nodes they are at."""
    workers = []
    for number, node in cluster.nodes.items():
        worker = device(clients, f"{name}-{number}")
        worker.connect(node)
        worker.subscribe(f"$share/g{name}/{name}/job/#")
        workers.append(worker)
    writer = device(clients, f"{name}-w", expiry_s=0)
    writer.connect(cluster.nodes[1])
    sent = [b"%d" % number for number in range(300)]
    for number, payload in enumerate(sent):
        writer.begin(f"{name}/job/{number % 7}", payload)
    got: list[bytes] = []

    def all_are_done() -> bool:
        for worker in workers:
            while not worker.got.empty():
                got.append(worker.got.get()[1])
        return len(got) >= len(sent)

    until(all_are_done)
    assert sorted(got) == sorted(sent)


def test_browsers_find_their_session_at_any_node(
    cluster: RunningCluster, clients: ExitStack, name: str
) -> None:
    """E2: MQTT inside WebSockets goes the same way."""
    for number, node in cluster.nodes.items():
        browser = device(clients, name, in_browser=True)
        browser.connect(node)
        assert browser.had_session == (number > 1)
        if number == 1:
            browser.subscribe(f"{name}/w")
        browser.publish(f"{name}/w", b"%d" % number)
        assert browser.next()[1] == b"%d" % number
        browser.leave()


def test_who_does_not_speak_mqtt_is_hung_up_on(cluster: RunningCluster) -> None:
    """C10: whichever node it comes to, and however little it says."""
    for node in cluster.nodes.values():
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 100,
            b"\xc0\0",
            b"\x10\x80\x80\x80\x80",
        ):
            with socket.create_connection(node.mqtt_address, timeout=60) as client:
                client.sendall(garbage)
                with suppress(ConnectionResetError):
                    assert client.recv(1000) in (b"", b"\x20\x02\0\x01")


@pytest.mark.parametrize("victim", ["owner", pytest.param("entrance", marks=pytest.mark.slow)])
def test_kill_9_of_a_node_loses_nothing(tmp_path: Path, victim: str) -> None:
    """E3, C13: a session survives the node that looks after it, and the one its client is at."""
    with RunningCluster(tmp_path) as cluster, ExitStack() as clients:
        reader, writer = Device("reader"), device(clients, "writer")
        reader.connect(cluster.nodes[1])
        reader.subscribe("x/y/#", 2)
        owner = owner_of(cluster, "reader")
        entrance = next(number for number in cluster.nodes if number != owner)
        reader.leave()
        reader = device(clients, "reader")
        reader.connect(cluster.nodes[entrance])
        lost = owner if victim == "owner" else entrance
        others = [number for number in cluster.nodes if number != lost]
        writer.connect(cluster.nodes[others[0]])
        sent = [b"%d" % number for number in range(200)]
        for payload in sent[:100]:
            writer.publish("x/y/z", payload, 2)
        assert reader.take(100) == sent[:100]
        cluster.nodes[lost].kill9()
        reader.drop()  # before it can come back by itself
        for payload in sent[100:]:
            writer.begin("x/y/z", payload, 2)
        again = device(clients, "reader")
        again.connect(cluster.nodes[others[1]])
        assert again.had_session
        assert again.take(100) == sent[100:]
        assert again.got.empty()


@pytest.mark.slow
def test_crashes_in_turn_lose_and_repeat_nothing_of_qos_2(tmp_path: Path) -> None:
    """E3, C13: each node is killed while messages are under way, and comes back."""
    with RunningCluster(tmp_path) as cluster, ExitStack() as clients:
        reader, writer = device(clients, "reader"), device(clients, "writer")
        reader.connect(cluster.nodes[1])
        reader.subscribe("x/y/#", 2)
        writer.connect(cluster.nodes[2])
        count = 0
        for node in cluster.nodes.values():
            for _ in range(300):
                writer.begin(f"x/y/{count % 5}", b"%d" % count, 2)
                count += 1
            node.restart()
        got = reader.take(count)
        assert sorted(map(int, got)) == [*range(count)]
        for key in range(5):
            own = [number for number in map(int, got) if number % 5 == key]
            assert own == sorted(own), "out of order"
        assert reader.got.empty()

"""One connection: handshake, limits, heartbeats, garbage, slow consumers, a full disk."""

import signal
import socket
import time
from contextlib import suppress

import httpx
import pytest
from pamqp import body, commands, frame, header
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ConnectionWrongStateError,
    NackError,
    ProbableAccessDeniedError,
    StreamLostError,
)

from chordmq.codecs.amqp.frames import PROTOCOL_HEADER
from tests.conftest import StartNode
from tests.fronts.amqp.client import TIMEOUT_S, connected, count, publish, take, wait_for
from tests.running_node import RunningNode

MORE_THAN_ANY_DISK = str(1 << 60)
MB = 1024 * 1024


def opened(node: RunningNode) -> socket.socket:
    """Return a plain connection to the front."""
    return socket.create_connection(node.amqp_address, TIMEOUT_S)


def ended(client: socket.socket) -> bytes:
    """Return all that comes until the node hangs up."""
    found = b""
    with suppress(ConnectionResetError):
        while data := client.recv(65536):
            found += data
    return found


def told(client: socket.socket, wanted: bytes) -> bool:
    """Return whether something comes before the node hangs up."""
    found = b""
    while data := client.recv(65536):
        found += data
        if wanted in found:
            return True
    return False


def session(queue: str) -> bytes:
    """Return what a client sends that logs in, declares a queue, publishes and leaves."""
    properties = commands.Basic.Properties(headers={"a": [1, {"b": "c"}]}, delivery_mode=2)
    return PROTOCOL_HEADER + b"".join(
        frame.marshal(method, channel)
        for channel, method in (
            (0, commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")),
            (0, commands.Connection.TuneOk(10, 4096, 0)),
            (0, commands.Connection.Open("/")),
            (1, commands.Channel.Open()),
            (1, commands.Queue.Declare(queue=queue, arguments={"x-max-length": 5})),
            (1, commands.Basic.Publish(exchange="", routing_key=queue)),
            (1, header.ContentHeader(0, 5, properties)),
            (1, body.ContentBody(b"hello")),
            (1, commands.Basic.Get(queue=queue)),
            (0, commands.Connection.Close(200, "bye", 0, 0)),
        )
    )


def test_a_whole_session_in_one_write_is_answered(node: RunningNode, name: str) -> None:
    with opened(node) as client:
        client.sendall(session(name))
        assert b"hello" in ended(client)


def test_whatever_is_done_to_a_byte_costs_only_its_sender(node: RunningNode, name: str) -> None:
    """C12, E4: every byte of a session changed, one at a time; others go on undisturbed."""
    data = session(name)
    before = node.log.read_text().count("Traceback")
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(f"{name}-others", exclusive=True)
        for position in range(len(data)):
            changed = data[:position] + bytes((data[position] ^ 0xFF,)) + data[position + 1 :]
            with opened(node) as client, suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(changed)
                client.shutdown(socket.SHUT_WR)
            if position % 20 == 0:
                publish(channel, "", f"{name}-others", str(position))
                assert take(channel, f"{name}-others", 1) == [(str(position), False)]
    assert node.log.read_text().count("Traceback") == before


@pytest.mark.parametrize(
    "greeting", [b"AMQP\x00\x02\x00\x00", b"AMQP\x00\x00\x09\x00", b"GET / HTTP/1.1\r\n\r\n", b"x"]
)
def test_other_protocols_hear_which_one_is_spoken_here(node: RunningNode, greeting: bytes) -> None:
    with opened(node) as client:
        client.sendall(greeting)
        assert ended(client) == PROTOCOL_HEADER


def test_a_frame_larger_than_agreed_ends_the_connection(node: RunningNode) -> None:
    with opened(node) as client:
        client.sendall(PROTOCOL_HEADER + b"\x01\x00\x00\x7f\xff\xff\xff" + bytes(20))
        assert told(client, b"FRAME_ERROR")


def test_limits_are_agreed_on(start_node: StartNode) -> None:
    """E4: tuning of channels, frames and heartbeats."""
    node = start_node({"amqp.channels_max": "2", "amqp.frame_max": "8192", "amqp.heartbeat_s": "9"})
    with connected(node) as channel:
        tuned = channel.connection._impl.params
        assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (2, 8192, 9)
        channel.queue_declare("large", exclusive=True)
        channel.basic_publish("", "large", b"x" * 50_000)
        wait_for(channel, "large", 1)
        assert len(channel.basic_get("large")[2]) == 50_000
    with connected(node, frame_max=4096, channel_max=1) as channel:
        assert channel.connection._impl.params.frame_max == 4096


def test_virtual_hosts_keep_names_apart_and_unknown_ones_are_refused(start_node: StartNode) -> None:
    """E4: a virtual host is a prefix of topic names."""
    node = start_node({"amqp.virtual_hosts": "shop, lab"})
    for vhost in ("/", "shop", "lab"):
        with connected(node, virtual_host=vhost) as channel:
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            publish(channel, "", "orders", f"in {vhost}")
    for vhost in ("/", "shop", "lab"):
        with connected(node, virtual_host=vhost) as channel:
            assert take(channel, "orders", 1) == [(f"in {vhost}", False)]
            assert count(channel, "orders") == 0
    with pytest.raises(ProbableAccessDeniedError, match="530"):
        connected(node, virtual_host="nowhere").__enter__()


def test_heartbeats_keep_a_quiet_client_and_end_a_dead_one(start_node: StartNode) -> None:
    """E4: a client that shows no sign of life for two intervals is cut off."""
    node = start_node({"amqp.heartbeat_s": "3"})
    with connected(node, heartbeat=3) as channel, opened(node) as dead:
        dead.sendall(
            PROTOCOL_HEADER
            + frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0a\0b", "en_US"), 0)
            + frame.marshal(commands.Connection.TuneOk(0, 0, 3), 0)
            + frame.marshal(commands.Connection.Open("/"), 0)
        )
        started = time.monotonic()
        dead.settimeout(0.1)
        received = b""
        while True:
            channel.connection.process_data_events(0.05)
            with suppress(TimeoutError):
                data = dead.recv(65536)
                received += data
                if not data:
                    break
            assert time.monotonic() < started + TIMEOUT_S
        assert time.monotonic() - started >= 6
        assert received.endswith(b"\x08\x00\x00\x00\x00\x00\x00\xce")
        assert channel.is_open


def test_a_consumer_that_does_not_read_costs_neither_memory_nor_others(
    start_node: StartNode,
) -> None:
    """E4, E6: 60 MB wait in the log, not in memory; another consumer gets its own meanwhile."""
    own_node = start_node({"broker.log.memory.max.bytes": "8000000"})
    with connected(own_node) as channel, opened(own_node) as slow:
        channel.confirm_delivery()
        channel.exchange_declare("both", "fanout", durable=True)
        for queue in ("slow", "quick"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "both")
        publish(channel, "both", "", "warm")
        take(channel, "quick", 1)
        slow.sendall(
            PROTOCOL_HEADER
            + frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0a\0b", "en_US"), 0)
            + frame.marshal(commands.Connection.TuneOk(0, 0, 0), 0)
            + frame.marshal(commands.Connection.Open("/"), 0)
            + frame.marshal(commands.Channel.Open(), 1)
            + frame.marshal(commands.Basic.Consume(queue="slow", no_ack=False), 1)
        )
        before = own_node.resident_bytes()
        large = "x" * 500_000
        for number in range(120):
            publish(channel, "both", "", f"{number:03}{large}")
            assert take(channel, "quick", 1)[0][0][:3] == f"{number:03}"
        assert own_node.resident_bytes() - before < 30 * MB
        slow.close()
        wait_for(channel, "slow", 121)
        assert take(channel, "slow", 2)[1][0][:3] == "000"


def test_publishers_wait_while_the_disk_is_full_and_readers_go_on(own_node: RunningNode) -> None:
    """C11, E4: connection.blocked; nothing is lost silently, what is there can be read."""
    with connected(own_node) as channel:
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        publish(channel, "", "kept", "before")
    own_node.stop()
    own_node.settings["broker.disk.free.stop.bytes"] = MORE_THAN_ANY_DISK
    own_node.start()
    with connected(own_node) as channel, connected(own_node) as reader:
        told: list[str] = []
        channel.connection.add_on_connection_blocked_callback(
            lambda _, method: told.append(method.method.reason)
        )
        channel.confirm_delivery()
        with pytest.raises(NackError):
            publish(channel, "", "kept", "refused")
        deadline = time.monotonic() + TIMEOUT_S
        while not told:
            channel.connection.process_data_events(0.05)
            assert time.monotonic() < deadline
        assert "disk" in told[0]
        assert [body for body, _ in take(reader, "kept", 1)] == ["before"]
        with suppress(StreamLostError, ConnectionWrongStateError):
            own_node.kill9()


def test_a_node_that_stops_says_so(own_node: RunningNode) -> None:
    """C13: clients hear that the node stops, and can come back."""
    with connected(own_node) as channel:
        own_node.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            channel.connection.process_data_events(TIMEOUT_S)
    assert own_node.wait() == 0


def test_channels_are_opened_before_they_are_used(node: RunningNode) -> None:
    with opened(node) as client:
        client.sendall(
            PROTOCOL_HEADER
            + frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0a\0b", "en_US"), 0)
            + frame.marshal(commands.Connection.TuneOk(0, 0, 0), 0)
            + frame.marshal(commands.Connection.Open("/"), 0)
            + frame.marshal(commands.Basic.Get(queue="q"), 7)
        )
        assert told(client, b"CHANNEL_ERROR")


def test_a_closed_channel_leaves_the_others_open(node: RunningNode, name: str) -> None:
    """E4: what is wrong on one channel ends that channel only."""
    with connected(node) as channel:
        other = channel.connection.channel()
        with pytest.raises(ChannelClosedByBroker, match="404"):
            channel.queue_declare(name, passive=True)
        other.queue_declare(name, exclusive=True)
        assert count(other, name) == 0


def test_clients_are_listed(node: RunningNode, name: str) -> None:
    """C15: who is connected, over HTTP and in the metrics."""
    properties = {"connection_name": name}
    with connected(node, client_properties=properties) as channel:
        channel.queue_declare(name, exclusive=True)
        channel.basic_consume(name, lambda *_: None)
        clients = httpx.get(f"{node.http}/v1/clients", timeout=60).json()["clients"]
        mine = next(one for one in clients if one["name"] == name)
        assert (mine["protocol"], mine["subscriptions"]) == ("amqp-0-9-1", [name])
        assert node.metric("chordmq_amqp_clients") >= 1

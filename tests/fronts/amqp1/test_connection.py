"""One connection: headers, login, limits, silence, garbage, and clients that do not read."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from proton import ConnectionException, Message

from chordmq.codecs.amqp1.composites import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from chordmq.codecs.amqp1.frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    TLS_HEADER,
    Frame,
    FrameReader,
    frame,
)
from chordmq.codecs.amqp1.values import Symbol
from tests.fronts.amqp.client import connected, publish, take, wait_for
from tests.fronts.amqp1.client import TIMEOUT_S, opened, receive, send
from tests.running_node import RunningNode

MB = 1024 * 1024
WINDOWS: dict[str, Any] = {"incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
NARROW = {
    "amqp.channels_max": "2",
    "amqp.frame_max": "8192",
    "amqp.message_size_max": "1000",
    "amqp.heartbeat_s": "4",
    "amqp.virtual_hosts": "/,shop",
}
BODY = b"\x00\x53\x75\xa0\x05hello"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node that allows little, and has two virtual hosts."""
    running = RunningNode(tmp_path_factory.mktemp("narrow"), NARROW)
    running.start()
    yield running
    running.close()


class Raw:
    """A client that says just what a test wants."""

    def __init__(self, node: RunningNode) -> None:
        self.socket = socket.create_connection(node.amqp_address, TIMEOUT_S)
        self._reader = FrameReader(MB)
        self._frames: list[Frame] = []

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, *parts: Any, channel: int = 0) -> None:
        """Send performatives and bytes."""
        self.socket.sendall(
            b"".join(one if isinstance(one, bytes) else frame(channel, one) for one in parts)
        )

    def begin(self) -> None:
        """Open a connection and a session."""
        self.say(AMQP_HEADER, Open(container_id="raw"), Begin(**WINDOWS))
        self.hear(Begin)

    def hear(self, kind: type) -> Any:
        """Return the next performative of a kind; pass over others."""
        while True:
            for number, one in enumerate(self._frames):
                if isinstance(one.performative, kind):
                    del self._frames[: number + 1]
                    return one.performative
            self._frames.clear()
            data = self.socket.recv(65536)
            assert data, f"the node hung up, and {kind.__name__} has not come"
            self._frames += [one for one in self._reader.receive(data) if isinstance(one, Frame)]

    def condition(self, kind: type) -> str:
        """Return the condition with which something ends."""
        error = self.hear(kind).error
        assert error is not None
        return str(error.condition)

    def rest(self) -> bytes:
        """Return all that comes until the node hangs up."""
        found = b""
        with suppress(ConnectionResetError):
            while data := self.socket.recv(65536):
                found += data
        return found


def session(target: str, source: str) -> bytes:
    """Return what a client says that logs in, sends, receives and leaves."""
    source_of, target_of = Source(address=source), Target(address=target)
    return b"".join(
        (
            SASL_HEADER,
            frame(0, SaslInit(mechanism=Symbol("PLAIN"), initial_response=b"\0u\0p")),
            AMQP_HEADER,
            frame(0, Open(container_id="c", properties={Symbol("a"): [1, {"b": None}]})),
            frame(1, Begin(**WINDOWS)),
            frame(1, Attach(link_name="i", handle=0, role=False, target=target_of)),
            frame(1, Attach(link_name="o", handle=1, role=True, source=source_of)),
            frame(
                1,
                Transfer(handle=0, delivery_id=0, delivery_tag=b"t"),
                b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x74\xc1\x05\x02\xa1\x01a\x41" + BODY,
            ),
            frame(1, Flow(handle=1, delivery_count=0, link_credit=5, **WINDOWS)),
            frame(1, Disposition(role=True, first=0, last=0, settled=True)),
            frame(1, End()),
            frame(0, Close()),
        )
    )


def test_a_whole_session_in_one_write_is_answered(node: RunningNode, name: str) -> None:
    """E4: a client need not wait for any answer."""
    with Raw(node) as client:
        client.say(session(name, name))
        said = client.rest()
        assert said.startswith(SASL_HEADER)
        assert b"\x00\x53\x18" in said, "the close is answered"


def test_whatever_is_done_to_a_byte_costs_only_its_sender(node: RunningNode, name: str) -> None:
    """C12, E4: every byte of a session changed, one at a time; others go on undisturbed."""
    data = session(name, f"{name}-a")
    before = node.log.read_text().count("Traceback")
    with opened(node) as others:
        sender = others.create_sender(f"{name}-others")
        receiver = others.create_receiver(f"{name}-others", credit=100)
        for position in range(len(data)):
            changed = data[:position] + bytes((data[position] ^ 0xFF,)) + data[position + 1 :]
            with Raw(node) as client, suppress(BrokenPipeError, ConnectionResetError):
                client.say(changed)
                client.socket.shutdown(socket.SHUT_WR)
            if position % 20 == 0:
                send(sender, str(position))
                assert receive(receiver, 1) == [str(position)]
    assert node.log.read_text().count("Traceback") == before


def test_a_version_that_is_not_spoken_hears_which_one_is(node: RunningNode) -> None:
    for header in (b"AMQP\x00\x01\x01\x00", b"AMQP\x03\x01\x00\x01"):
        with Raw(node) as client:
            client.say(header)
            assert client.rest() == AMQP_HEADER
    with Raw(node) as client:
        client.say(TLS_HEADER)
        assert client.rest() == b"AMQP\x00\x00\x09\x01"


def test_login_is_offered_and_judged(node: RunningNode) -> None:
    with Raw(node) as client:
        client.say(SASL_HEADER)
        assert set(client.hear(SaslMechanisms).mechanisms) == {"ANONYMOUS", "PLAIN"}
        client.say(SaslInit(mechanism=Symbol("OTHER")))
        assert client.hear(SaslOutcome).outcome == 1
        assert client.rest() == b""


def test_limits_are_agreed_on(narrow: RunningNode) -> None:
    """E4: frames, sessions and silence."""
    with Raw(narrow) as client:
        client.say(AMQP_HEADER, Open(container_id="c"))
        opened_ = client.hear(Open)
        assert (opened_.max_frame_size, opened_.channel_max) == (8192, 1)
        assert opened_.idle_time_out == 4000
        client.say(Begin(**WINDOWS), channel=2)
        assert client.condition(Close) == "amqp:resource-limit-exceeded"
    with Raw(narrow) as client:
        client.begin()
        client.say(b"\x00\x00\x20\x01\x02\x00\x00\x00" + bytes(0x1FF9))
        assert client.condition(Close) == "amqp:connection:framing-error"


def test_small_frames_are_kept_to(node: RunningNode, name: str) -> None:
    """E4: multi-frame transfers, both ways."""
    large = bytes(range(256)) * 400
    with opened(node, max_frame_size=512) as connection:
        receiver = connection.create_receiver(name, credit=5)
        sender = connection.create_sender(name)
        sender.send(Message(body=large, inferred=True))
        assert receive(receiver, 1) == [large]


def test_a_message_that_is_too_large_ends_its_link_only(narrow: RunningNode, name: str) -> None:
    with Raw(narrow) as client:
        client.begin()
        client.say(Attach(link_name="l", handle=0, role=False, target=Target(address=name)))
        assert client.hear(Attach).max_message_size == 1000
        payload = b"\x00\x53\x75\xb0\x00\x00\x08\x00" + bytes(2048)
        client.say(frame(0, Transfer(handle=0, delivery_id=0, delivery_tag=b"t"), payload))
        assert client.condition(Detach) == "amqp:link:message-size-exceeded"
        client.say(Close())
        assert client.hear(Close).error is None


def test_a_silent_client_is_let_go_and_a_lively_one_is_not(narrow: RunningNode) -> None:
    """E4: idle time-out, both ways."""
    with Raw(narrow) as silent, Raw(narrow) as lively:
        silent.begin()
        lively.begin()
        lively.socket.settimeout(0.2)
        beats = b""
        silent.socket.setblocking(False)
        deadline = time.monotonic() + TIMEOUT_S
        is_gone = False
        while not is_gone:
            assert time.monotonic() < deadline
            lively.say(EMPTY_FRAME)
            with suppress(TimeoutError):
                beats += lively.socket.recv(1000)
            with suppress(BlockingIOError):
                try:
                    is_gone = silent.socket.recv(1000) == b""
                except ConnectionResetError:
                    is_gone = True
        assert EMPTY_FRAME in beats
        lively.socket.settimeout(TIMEOUT_S)
        lively.say(Close())
        assert lively.hear(Close).error is None


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        ((Open(container_id="again"),), "amqp:illegal-state"),
        ((Begin(**WINDOWS),), "amqp:illegal-state"),
        ((AMQP_HEADER,), "amqp:connection:framing-error"),
        ((b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45",), "amqp:decode-error"),
    ],
)
def test_what_is_wrong_ends_the_connection_with_its_condition(
    node: RunningNode, said: tuple[Any, ...], condition: str
) -> None:
    with Raw(node) as client:
        client.begin()
        client.say(*said)
        assert client.condition(Close) == condition


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        ((Transfer(handle=7, delivery_id=0),), "amqp:session:unattached-handle"),
        ((Flow(handle=7, **WINDOWS),), "amqp:session:unattached-handle"),
        ((Attach(link_name="l", handle=99_999, role=False),), "amqp:resource-limit-exceeded"),
    ],
)
def test_what_is_wrong_in_a_session_ends_only_that(
    node: RunningNode, said: tuple[Any, ...], condition: str
) -> None:
    with Raw(node) as client:
        client.begin()
        client.say(*said)
        assert client.condition(End) == condition
        client.say(*said, End(), Begin(**WINDOWS))
        assert client.hear(Begin).remote_channel == 0


def test_a_handle_is_used_once(node: RunningNode, name: str) -> None:
    attach = Attach(link_name="l", handle=0, role=False, target=Target(address=name))
    with Raw(node) as client:
        client.begin()
        client.say(attach, attach)
        assert client.condition(End) == "amqp:session:handle-in-use"


def test_transfers_beyond_the_window_end_the_session(node: RunningNode, name: str) -> None:
    with Raw(node) as client:
        client.begin()
        client.say(Attach(link_name="l", handle=0, role=False, target=Target(address=name)))
        client.hear(Flow)
        part = frame(0, Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True), b"")
        with suppress(BrokenPipeError, ConnectionResetError):
            client.say(part * 100_000)
        assert client.condition(End) == "amqp:session:window-violation"


def test_a_client_that_does_not_read_stops_only_itself(node: RunningNode, name: str) -> None:
    """A6, E4: what a slow client has not taken stays in the log."""
    body = "x" * 100_000
    with connected(node) as channel, Raw(node) as slow:
        channel.queue_declare(name, durable=True)
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.begin()
        slow.say(
            Attach(link_name="l", handle=0, role=True, source=Source(address=f"/queues/{name}")),
            Flow(
                handle=0,
                delivery_count=0,
                link_credit=10_000,
                incoming_window=10_000,
                next_outgoing_id=0,
                outgoing_window=1,
            ),
        )
        slow.hear(Attach)
        publish(channel, "", name, *[body] * 200)
        with opened(node) as other:
            receiver = other.create_receiver(f"/queues/{name}", credit=1)
            publish(channel, "", name, "last")
            assert receiver.receive(timeout=TIMEOUT_S).body is not None
            memory = httpx.get(f"{node.http}/metrics", timeout=60).text
            held = next(
                line for line in memory.splitlines()
                if line.startswith("chordmq_connection_memory_bytes") and '"amqp"' in line
            )  # fmt: skip
            assert float(held.rsplit(" ", 1)[1]) < 4 * MB


def test_what_a_client_that_vanishes_had_goes_to_others(node: RunningNode, name: str) -> None:
    with connected(node) as channel:
        channel.queue_declare(name, durable=True)
        publish(channel, "", name, "a", "b")
        with Raw(node) as client:
            client.begin()
            source = Source(address=f"/queues/{name}")
            client.say(
                Attach(link_name="l", handle=0, role=True, source=source),
                Flow(handle=0, delivery_count=0, link_credit=10, **WINDOWS),
            )
            client.hear(Transfer)
            client.hear(Transfer)
        wait_for(channel, name, 2)
        assert take(channel, name, 2) == [("a", True), ("b", True)]


def test_clients_show_up_with_what_they_consume(node: RunningNode, name: str) -> None:
    with opened(node) as connection:
        connection.create_receiver(name)
        facts = httpx.get(f"{node.http}/v1/clients", timeout=60).json()["clients"]
        assert [one["protocol"] for one in facts if one["subscriptions"] == [name]] == ["amqp-1.0"]
        assert "chordmq_amqp1_clients " in httpx.get(f"{node.http}/metrics", timeout=60).text


def test_a_node_that_stops_says_goodbye(own_node: RunningNode, name: str) -> None:
    with Raw(own_node) as client:
        client.begin()
        os.kill(own_node.pid, signal.SIGTERM)
        assert client.condition(Close) == "amqp:connection:forced"


def test_a_virtual_host_is_chosen_by_the_host_name(narrow: RunningNode, name: str) -> None:
    with opened(narrow, virtual_host="vhost:shop") as connection:
        send(connection.create_sender(name), "x")
        topics = httpx.get(f"{narrow.http}/v1/topics", timeout=60).json()["topics"]
        assert f"shop.{name}" in [one["name"] for one in topics]
    with pytest.raises(ConnectionException), opened(narrow, virtual_host="vhost:none"):
        pass

"""The listener's limits: who is admitted, and who waits for memory."""

import asyncio
import socket
from contextlib import ExitStack

import httpx

from chordmq.clock import ManualClock
from chordmq.fronts.listener import Listener, ListenerSettings, Memory
from tests.conftest import StartNode
from tests.faults.test_limits import is_served


class Guest:
    """A connection that only remembers what it was told."""

    is_busy = False
    is_partial = False

    def __init__(self) -> None:
        self.last_active_s = 0.0
        self.resumed = 0
        self.closed = ""

    def drain(self) -> None:
        self.closed = "drained"

    def close(self, reason: str) -> None:
        self.closed = reason

    def resume(self) -> None:
        self.resumed += 1


async def test_connections_beyond_the_limits_are_refused_and_others_stay() -> None:
    """C11: a limit per node and per address."""
    settings = ListenerSettings(connections_max=3, connections_per_address_max=2)
    listener = Listener(settings, ManualClock(), "test")
    first, second, third, fourth = Guest(), Guest(), Guest(), Guest()
    assert listener.admit(first, "10.0.0.1")
    assert listener.admit(second, "10.0.0.1")
    assert not listener.admit(third, "10.0.0.1")
    assert listener.admit(third, "10.0.0.2")
    assert not listener.admit(fourth, "10.0.0.3")
    listener.forget(first, "10.0.0.1")
    assert listener.admit(fourth, "10.0.0.3")
    assert listener.refused == 2


async def test_idle_and_stuck_connections_are_closed() -> None:
    """C11: a client that says nothing, or never ends its request, is not kept for ever."""
    clock = ManualClock()
    settings = ListenerSettings(idle_timeout_s=100, partial_frame_timeout_s=10)
    listener = Listener(settings, clock, "test")
    idle, stuck, busy = Guest(), Guest(), Guest()
    stuck.is_partial = True
    busy.is_busy = True
    for guest in (idle, stuck, busy):
        listener.admit(guest, "10.0.0.1")
    clock.advance(11_000)
    listener.sweep()
    assert (idle.closed, busy.closed) == ("", "")
    assert stuck.closed
    clock.advance(100_000)
    listener.sweep()
    assert idle.closed
    assert not busy.closed


def test_who_exceeds_the_memory_waits_until_others_give_back() -> None:
    """C11: memory in total is bounded, with back-pressure."""
    memory = Memory(limit=100)
    greedy, late = Guest(), Guest()
    assert memory.note(greedy, 0, 150)
    assert not memory.note(late, 0, 20)
    memory.note(greedy, 150, 70)
    assert late.resumed == 1


def test_one_connection_may_always_go_on_so_that_none_waits_for_ever() -> None:
    """C11: half-received requests cannot block each other."""
    memory = Memory(limit=100)
    first, second, third = Guest(), Guest(), Guest()
    assert memory.note(first, 0, 100)
    assert memory.note(first, 100, 200)
    assert not memory.note(second, 0, 100)
    assert not memory.note(third, 0, 100)
    memory.note(first, 200, 0)
    assert (second.resumed, third.resumed) == (1, 0)
    memory.note(second, 100, 0)
    assert third.resumed == 1
    assert memory.used == 100


async def test_an_address_that_connects_too_often_is_refused_after_a_while() -> None:
    """C11: KIP-612; who comes within the rate is let in, and no limit of others is touched."""
    listener = Listener(ListenerSettings(), ManualClock(), "test")
    waits = {"10.0.0.1": 0.01}
    listener.connection_wait_s = lambda address: waits.get(address, 0.0)
    assert listener.admit(Guest(), "10.0.0.2")
    assert not listener.admit(Guest(), "10.0.0.1")
    hung_up = asyncio.Event()
    listener.turn_away(hung_up.set)
    assert not hung_up.is_set()
    async with asyncio.timeout(60):
        await hung_up.wait()
    assert listener.refused == 1


def test_clients_feel_the_limit_of_their_address(start_node: StartNode) -> None:
    """C11: on every listener alike; connections that are open are not counted again."""
    node = start_node()
    body = {"ip": "<default>", "limits": {"connection_creation_rate": 3}}
    with httpx.Client(base_url=node.http, timeout=60) as client:
        assert client.put("/v1/quotas", json=body).status_code == 200
        refused = 0
        with ExitStack() as stack:
            while refused < 4:  # sooner or later, however slow this machine is
                one = socket.create_connection(node.address, timeout=60)
                refused += not is_served(stack.enter_context(one))
        assert client.get("/v1/quotas").json()["quotas"]
        text = client.get("/metrics").text
    rows = [line for line in text.splitlines() if line.startswith("chordmq_connections_refused")]
    assert any('listener="kafka"' in row and float(row.split()[1]) >= 4 for row in rows)

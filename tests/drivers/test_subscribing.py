"""The use case subscribe: failures, dead letters, and nothing twice; on a node."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from chordmq.clock import SystemClock
from chordmq.drivers import log
from chordmq.drivers.adapter import Message, Subscription
from chordmq.drivers.addresses import open_driver
from chordmq.drivers.errors import Unavailable
from chordmq.drivers.publishing import Publishing
from chordmq.drivers.subscribing import Diligence, Subscribing
from tests.conftest import StartNode
from tests.drivers.reading import Seen, taken
from tests.running_node import RunningNode, free_port


async def test_a_message_that_always_fails_goes_to_the_dead_letters(
    node: RunningNode, name: str
) -> None:
    """E1, E6: those before and after it are handled, once each, and the reason is told."""
    got = Seen()

    async def handle(messages: Sequence[Message]) -> None:
        if any(one.value == b"bad" for one in messages):
            raise ValueError("it is bad")
        got.add([(one.value or b"").decode() for one in messages])

    async with open_driver(f"chordmq://{node.bootstrap}") as driver:
        wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i")
        case = Subscribing(driver, wanted, handle, random.Random(1), Diligence(attempts_max=2))
        dead = Subscription(filter=f"{name}.a.dlq", index=f"{name}-dead")
        async with asyncio.TaskGroup() as tasks, driver.subscribed(dead) as letters:
            running = tasks.create_task(case.run())
            await case.is_open.wait()
            values = (b"1", b"bad", b"2")
            await driver.publish([Message(name=f"{name}/a/k", value=one) for one in values])
            (letter,) = await taken(letters, 1)
            await got.wait(2)
            running.cancel()
    assert got.values == ["1", "2"]
    assert letter.message.value == b"bad"
    headers = dict(letter.message.headers)
    assert headers["chordmq.dead.reason"] == b"ValueError: it is bad"
    assert headers["chordmq.origin.topic"] == f"{name}.a".encode()


async def test_a_broker_that_is_away_for_good_is_told() -> None:
    """C14: patience has an end; the breaker has counted."""
    async with open_driver(f"chordmq://127.0.0.1:{free_port()}") as driver:
        publishing = Publishing(driver, SystemClock(), random.Random(1), patience_s=0.5)
        with pytest.raises(Unavailable):
            await publishing.publish([Message(name="a/b", value=b"")])
        assert publishing.breaker.failures > 1


async def test_a_driver_closes_after_messages_that_could_not_be_stored(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E7: who published was told; there is nothing more to say at the end."""
    monkeypatch.setattr(log, "DELIVERY_TIMEOUT_S", 0.5)
    own = start_node()
    async with open_driver(f"chordmq://{own.bootstrap}") as driver:
        await driver.publish([Message(name="a/b", value=b"")])
        own.kill9()
        with pytest.raises(Unavailable):
            await driver.publish([Message(name="a/b", value=b"")])

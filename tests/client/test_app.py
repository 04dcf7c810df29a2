"""Applications: how their handlers are found and run."""

import asyncio
import sys
from types import ModuleType

import pytest

from chordmq.client.app import ConsumerApp, app_in
from chordmq.client.consumer import Message
from chordmq.client.errors import CannotConnect
from chordmq.client.handlers import consumer
from chordmq.client.producer import Producer
from tests.running_node import RunningNode


@pytest.fixture
def module() -> ModuleType:
    made = ModuleType("billing")
    vars(made)["app"] = app = ConsumerApp()
    app.consumer("orders", group="g")(print)
    vars(made)["one"] = consumer("payments", group="g")(print)
    vars(made)["two"] = consumer("refunds", group="g")(print)
    return made


def test_an_application_is_found_by_name_and_handlers_without_one(module: ModuleType) -> None:
    """D10: module:app, module:function or the whole module."""
    assert [one.topic for one in app_in(module, "app").handlers] == ["orders"]
    assert [one.topic for one in app_in(module, "one").handlers] == ["payments"]
    assert [one.topic for one in app_in(module).handlers] == ["payments", "refunds"]


def test_what_is_not_there_is_said(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="no ConsumerApp called 'other'"):
        app_in(module, "other")
    with pytest.raises(ValueError, match="no function with @consumer"):
        app_in(sys)


async def test_an_application_without_handlers_is_refused() -> None:
    with pytest.raises(ValueError, match="no consumers"):
        await ConsumerApp().serve("127.0.0.1:1")


async def test_a_broker_that_was_never_there_is_an_error() -> None:
    """D10: a wrong address is seen at once."""
    app = ConsumerApp(consumer("orders", "billing")(print))
    with pytest.raises(CannotConnect):
        await app.serve("127.0.0.1:1")


async def test_a_failure_leaves_no_cancellation_with_the_caller() -> None:
    """D10: who serves again after a while, as a node does, waits with a time-out of its own."""
    app = ConsumerApp(consumer("orders", "billing")(print), consumer("refunds", "billing")(print))
    with pytest.raises(CannotConnect):
        await app.serve("127.0.0.1:1")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_broker_that_goes_away_is_waited_for(own_node: RunningNode) -> None:
    """D10: kill -9 of the node; what was written before and after is processed."""
    seen: set[bytes | None] = set()

    @consumer("orders", group="billing", session_timeout_ms=6_000)
    async def note(message: Message) -> None:
        seen.add(message.value)

    async def write(value: bytes) -> None:
        async with Producer(own_node.bootstrap) as producer:
            await producer.send("orders", value)
        while value not in seen:  # noqa: ASYNC110 (what others do)
            await asyncio.sleep(0.02)

    app = ConsumerApp(note)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        async with Producer(own_node.bootstrap) as producer:
            await producer.send("orders", b"first")
        tasks.create_task(app.serve(own_node.bootstrap))
        await write(b"before")
        own_node.kill9()
        await asyncio.sleep(1.0)  # long enough for what is tried again by itself
        await asyncio.to_thread(own_node.start)
        await write(b"after")
        app.stop()
    assert seen == {b"first", b"before", b"after"}

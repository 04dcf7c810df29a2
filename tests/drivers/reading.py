"""Reads what drivers deliver, for tests: so many messages, or what a use case has handled."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chordmq.drivers.adapter import Delivery, Inbox, Message, MessageBrokerAdapter, Subscription
from chordmq.drivers.subscribing import Subscribing

WAIT_S = 60.0


async def taken(inbox: Inbox, count: int) -> list[Delivery]:
    """Return so many messages; fail if they do not come."""
    found: list[Delivery] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += await inbox.take(1.0)
    return found


class Seen:
    """What was handled, and word when there is enough of it."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._more = asyncio.Event()

    def add(self, values: Sequence[str]) -> None:
        self.values.extend(values)
        self._more.set()

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(set(self.values)) < count:
                self._more.clear()
                await self._more.wait()


def texts(deliveries: Sequence[Delivery]) -> list[str]:
    return [(one.message.value or b"").decode() for one in deliveries]


def numbered(name: str, numbers: range) -> list[Message]:
    return [Message(name=name, value=b"%d" % number) for number in numbers]


@asynccontextmanager
async def subscribing(
    driver: MessageBrokerAdapter, wanted: Subscription, got: Seen
) -> AsyncIterator[Subscribing]:
    """Run the use case with a function that writes down what comes."""

    async def handle(messages: Sequence[Message]) -> None:
        got.add([(one.value or b"").decode() for one in messages])

    case = Subscribing(driver, wanted, handle, random.Random(1))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(case.run())
        async with asyncio.timeout(WAIT_S):
            await case.is_open.wait()
        yield case
        running.cancel()

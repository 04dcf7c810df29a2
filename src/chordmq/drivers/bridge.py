"""Joins two brokers: what is published under some names on one side comes out on the other.

With a node on one side, devices and browsers have its gateways, shadows and commands, on top of the
broker that a company already runs. A message keeps its id, so that one that is carried twice after
a crash can be told from a new one; it is not carried back to where it came from.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.drivers.adapter import Message, MessageBrokerAdapter, Subscription
from chordmq.drivers.publishing import Publishing
from chordmq.drivers.subscribing import Subscribing

BRIDGE_HEADER = "chordmq.bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """What a bridge carries, and how it is called: the name of its place on both sides."""

    name: str = "chordmq-gateway"
    inbound: tuple[str, ...] = ("iotsphere/#",)
    """Filters of what is carried from the company's broker to the node."""
    outbound: tuple[str, ...] = ("iotsphere/#",)
    credit: int = 1_000


class Bridge:
    """Carries messages in both directions until cancelled."""

    def __init__(
        self,
        node: MessageBrokerAdapter,
        company: MessageBrokerAdapter,
        settings: BridgeSettings,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._settings = settings
        self._chance = chance
        self._to_node = Publishing(node, clock, chance)
        self._to_company = Publishing(company, clock, chance)
        self._lanes = [
            *(self._lane(company, one, "in", self._to_node) for one in settings.inbound),
            *(self._lane(node, one, "out", self._to_company) for one in settings.outbound),
        ]

    @property
    def carried_in(self) -> int:
        """Return how many messages came to the node."""
        return self._to_node.published

    @property
    def carried_out(self) -> int:
        """Return how many messages went to the company's broker."""
        return self._to_company.published

    async def run(self) -> None:
        """Carry; a broker that is away is waited for."""
        async with asyncio.TaskGroup() as tasks:
            for lane in self._lanes:
                tasks.create_task(lane.run())

    async def opened(self) -> None:
        """Return when both brokers know of all that is carried."""
        for lane in self._lanes:
            await lane.is_open.wait()

    def _lane(
        self, source: MessageBrokerAdapter, wanted: str, direction: str, target: Publishing
    ) -> Subscribing:
        name = self._settings.name
        index = f"{name}-{direction}-{wanted.replace('/', '.').replace('#', '_').replace('+', '-')}"
        subscription = Subscription(filter=wanted, index=index, credit=self._settings.credit)

        async def carry(messages: Sequence[Message]) -> None:
            carried = [_marked(one, name) for one in messages if not _is_marked(one, name)]
            if carried:
                await target.publish(carried)

        return Subscribing(source, subscription, carry, self._chance)


def _marked(message: Message, bridge: str) -> Message:
    return replace(message, headers=(*message.headers, (BRIDGE_HEADER, bridge.encode())))


def _is_marked(message: Message, bridge: str) -> bool:
    return (BRIDGE_HEADER, bridge.encode()) in message.headers

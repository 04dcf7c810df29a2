"""The use case subscribe: a function is called with every message that a filter matches, once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from chordmq.broker.names import Names
from chordmq.client.backoff import Backoff
from chordmq.client.distinct import IDS_KEPT, DistinctIds
from chordmq.dataclass import dataclass
from chordmq.drivers.adapter import (
    Delivery,
    Inbox,
    Message,
    MessageBrokerAdapter,
    Subscription,
)
from chordmq.drivers.errors import Unavailable
from chordmq.logs import get_logger
from chordmq.records.dead_letter import obituary

log = get_logger(__name__)

TAKE_S = 1.0
DEAD_LETTER_SUFFIX = ".dlq"
NOWHERE = -1
"""The partition and offset of a message whose broker has none, or does not tell."""

Handler = Callable[[Sequence[Message]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diligence:
    """How often a message is tried, and for how many messages it is known that they came."""

    attempts_max: int = 5
    ids_kept: int = IDS_KEPT


class Subscribing:
    """Hands messages to a function and accepts them when it has returned.

    The function gets some at once, in order. If it raises, they come again one by one; one that
    fails too often goes to the dead letters. A broker that is away is waited for, as is another one
    that the function needs and that it says to be Unavailable.
    """

    def __init__(
        self,
        adapter: MessageBrokerAdapter,
        subscription: Subscription,
        handler: Handler,
        chance: random.Random,
        diligence: Diligence | None = None,
    ) -> None:
        self._adapter = adapter
        self._subscription = subscription
        self._handler = handler
        self._chance = chance
        self._diligence = diligence or Diligence()
        self._seen = DistinctIds(self._diligence.ids_kept)
        self.is_open = asyncio.Event()
        """Set while the broker knows of the subscription."""
        self.handled = 0
        self.dead = 0

    async def run(self) -> None:
        """Serve until cancelled; raise Refused if the broker will not."""
        backoff = Backoff(self._chance)
        while True:
            try:
                async with self._adapter.subscribed(self._subscription) as inbox:
                    self.is_open.set()
                    while True:
                        deliveries = await inbox.take(TAKE_S)
                        backoff.reset()
                        if deliveries:
                            await self._serve(inbox, deliveries)
            except Unavailable as error:
                self.is_open.clear()
                wait_s = backoff.next_s()
                log.warning("cannot read", error=str(error), again_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)

    async def _serve(self, inbox: Inbox, deliveries: Sequence[Delivery]) -> None:
        fresh = self._fresh(deliveries)
        if fresh:
            try:
                await self._handler([one.message for one in fresh])
            except Unavailable:
                await inbox.release(deliveries)
                raise
            except Exception as error:  # noqa: BLE001 (whatever it raises is its failure)
                log.warning("messages failed", count=len(fresh), error=str(error))
                for one in fresh:
                    await self._serve_one(one.message)
        self._remember(fresh)
        await inbox.accept(deliveries)

    async def _serve_one(self, message: Message) -> None:
        """Try one message alone, as often as it may be; then bury it."""
        backoff = Backoff(self._chance)
        for attempt in range(2, self._diligence.attempts_max + 1):
            try:
                await self._handler([message])
            except Unavailable:
                raise  # not the message's fault: it comes again
            except Exception as error:  # noqa: BLE001 (whatever it raises is its failure)
                reason = f"{type(error).__name__}: {error}"
                log.warning("message failed", name=message.name, attempt=attempt, error=reason)
            else:
                return
            if attempt == self._diligence.attempts_max:
                await self._adapter.publish([self._dead_letter(message, reason)])
                self.dead += 1
                return
            await asyncio.sleep(backoff.next_s())

    def _dead_letter(self, message: Message, reason: str) -> Message:
        topic = Names().destination(message.name).topic
        why = obituary(
            topic, NOWHERE, NOWHERE, self._subscription.index, self._diligence.attempts_max, reason
        )
        name = topic + DEAD_LETTER_SUFFIX
        return replace(message, name=name, headers=(*message.headers, *why))

    def _fresh(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Return those that have not come before, each once."""
        first = {one.message.id: one for one in reversed(deliveries)}
        return [
            one
            for one in deliveries
            if first[one.message.id] is one and self._seen.is_new(one.message.id)
        ]

    def _remember(self, deliveries: Sequence[Delivery]) -> None:
        self.handled += len(deliveries)
        self._seen.add(one.message.id for one in deliveries)

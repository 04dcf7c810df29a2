"""The use case publish: messages go to a broker, whichever it is, until it has stored them."""

import asyncio
import random
from collections.abc import Sequence

from chordmq.client.backoff import Backoff
from chordmq.client.breaker import Breaker
from chordmq.clock import Clock
from chordmq.drivers.adapter import Message, MessageBrokerAdapter
from chordmq.drivers.errors import Unavailable
from chordmq.logs import get_logger

log = get_logger(__name__)

PATIENCE_S = 120.0


class Publishing:
    """Publishes; a broker that is away is tried again with back-off and jitter.

    A message may so be stored twice, with the same id. Drivers and `Subscribing` drop the second.
    """

    def __init__(
        self,
        adapter: MessageBrokerAdapter,
        clock: Clock,
        chance: random.Random,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._adapter = adapter
        self._clock = clock
        self._chance = chance
        self._patience_s = patience_s
        self.breaker = Breaker("publish", chance)
        self.published = 0

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when all are stored; raise Unavailable when patience is over, or Refused."""
        deadline_s = self._clock.monotonic_s() + self._patience_s
        backoff = Backoff(self._chance)
        while True:
            try:
                await self._adapter.publish(messages)
            except Unavailable as error:
                now_s = self._clock.monotonic_s()
                self.breaker.failed(now_s)
                wait_s = max(backoff.next_s(), self.breaker.wait_s(now_s))
                if now_s + wait_s > deadline_s:
                    raise
                log.warning("cannot publish", error=str(error), again_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)
                self.breaker.allows(self._clock.monotonic_s())
            else:
                self.breaker.succeeded()
                self.published += len(messages)
                return

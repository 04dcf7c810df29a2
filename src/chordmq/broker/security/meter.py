"""Counts what one client sends, receives and has the node do, and charges it to its quotas."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

from chordmq.broker.security.quotas import Bucket, Buckets, Limit, Quotas
from chordmq.clock import Clock
from chordmq.errors import QuotaExceeded

T = TypeVar("T")


class Meter:
    """What one connection or request uses; nothing is charged before somebody asks for the wait.

    A front adds to `produced` and `fetched` what goes in and out, in bytes, and to `worked_s` how
    long the event loop was busy with it. Then it makes the client wait, in the way that its
    protocol has for that.
    """

    __slots__ = ("_clock", "_quotas", "client", "fetched", "produced", "user", "worked_s")

    def __init__(self, quotas: Quotas, clock: Clock, user: str = "", client: str = "") -> None:
        self._quotas = quotas
        self._clock = clock
        self.user = user
        self.client = client
        self.produced = 0
        self.fetched = 0
        self.worked_s = 0.0

    @property
    def is_on(self) -> bool:
        """Return whether anybody has a quota."""
        return bool(self._quotas)

    def wait_s(self) -> float:
        """Charge what was counted; return for how long the client must wait."""
        now_s = self._clock.monotonic_s()
        buckets = self._buckets(now_s)
        used = (
            (buckets.produce, self.produced),
            (buckets.fetch, self.fetched),
            (buckets.request, self.worked_s),
        )
        self.produced, self.fetched, self.worked_s = 0, 0, 0.0
        return max(
            (bucket.charge(amount, now_s) for bucket, amount in used if bucket and amount),
            default=0.0,
        )

    async def pause(self) -> None:
        """Charge what was counted, and wait for as long as the client must."""
        if self.is_on:
            wait_s = self.wait_s()
            if wait_s > 0:
                await asyncio.sleep(wait_s)

    def refuse_debtor(self, *limits: Limit) -> None:
        """Raise QuotaExceeded while the client still has to wait for what it took before."""
        if not self.is_on:
            return
        now_s = self._clock.monotonic_s()
        buckets = self._buckets(now_s)
        for limit in limits:
            bucket: Bucket | None = getattr(buckets, limit.name.lower())
            wait_s = bucket.charge(0, now_s) if bucket is not None else 0.0
            if wait_s > 0:
                raise QuotaExceeded(f"above {limit}; go on in {wait_s:.3f} s", wait_s)

    async def working(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work, and count the time for which it keeps others off the event loop."""
        return await _Working(self, work, self._clock)

    def _buckets(self, now_s: float) -> Buckets:
        return self._quotas.buckets(self.user, self.client, now_s)


class _Working(Generic[T]):
    """Work whose turns of the event loop are timed; what it waits for costs nobody anything."""

    __slots__ = ("_clock", "_meter", "_work")

    def __init__(self, meter: Meter, work: Coroutine[Any, Any, T], clock: Clock) -> None:
        self._meter = meter
        self._work = work
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, T]:
        """Pass on what the work waits for."""
        fault: BaseException | None = None
        try:
            while True:
                began_s = self._clock.monotonic_s()
                try:
                    awaited = self._work.send(None) if fault is None else self._work.throw(fault)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                finally:
                    self._meter.worked_s += self._clock.monotonic_s() - began_s
                try:
                    yield awaited
                    fault = None
                except BaseException as error:  # noqa: BLE001 (handed on to the work)
                    fault = error
        finally:
            self._work.close()

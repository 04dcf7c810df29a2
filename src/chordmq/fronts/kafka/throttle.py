"""Counts what one connection uses against its client's quotas."""

from chordmq.broker.security.quotas import Buckets, Quotas
from chordmq.clock import Clock
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.fronts.kafka.call import Client

PRODUCE, FETCH = 0, 1


class Throttle:
    """Adds up what came in and what goes out; told to, charges it and says how long to wait."""

    __slots__ = ("_client", "_client_id", "_clock", "_fetched", "_produced", "_quotas", "_worked_s")

    def __init__(self, quotas: Quotas, client: Client, clock: Clock) -> None:
        self._quotas = quotas
        self._client = client
        self._clock = clock
        self._client_id = ""
        self._produced = 0
        self._fetched = 0
        self._worked_s = 0.0

    @property
    def is_on(self) -> bool:
        """Return whether anybody has a quota."""
        return bool(self._quotas)

    def began(self, header: RequestHeader, size: int, worked_s: float) -> None:
        """Take note of a request and of the time that it took."""
        self._client_id = header.client_id or ""
        self._worked_s += worked_s
        if header.api_key == PRODUCE:
            self._produced += size

    def answered(self, header: RequestHeader, size: int) -> None:
        """Take note of an answer that is about to be sent."""
        if header.api_key == FETCH:
            self._fetched += size

    def wait_s(self) -> float:
        """Charge what was noted; return for how long the client must wait."""
        now_s = self._clock.monotonic_s()
        buckets = self._buckets(now_s)
        used = (
            (buckets.produce, self._produced),
            (buckets.fetch, self._fetched),
            (buckets.request, self._worked_s),
        )
        self._produced, self._fetched, self._worked_s = 0, 0, 0.0
        return max(
            (bucket.charge(amount, now_s) for bucket, amount in used if bucket and amount),
            default=0.0,
        )

    def _buckets(self, now_s: float) -> Buckets:
        return self._quotas.buckets(self._client.principal.name, self._client_id, now_s)

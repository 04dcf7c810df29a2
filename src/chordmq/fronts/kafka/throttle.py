"""Counts what one connection uses against its client's quotas."""

from chordmq.broker.security.meter import Meter
from chordmq.broker.security.quotas import Quotas
from chordmq.clock import Clock
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.fronts.kafka.call import Client

PRODUCE, FETCH = 0, 1


class Throttle(Meter):
    """Adds up what requests bring and answers take; as in Kafka, only records count as bytes."""

    __slots__ = ("_client",)

    def __init__(self, quotas: Quotas, client: Client, clock: Clock) -> None:
        super().__init__(quotas, clock)
        self._client = client

    def began(self, header: RequestHeader, size: int, worked_s: float) -> None:
        """Take note of a request and of the time that it took."""
        self.user, self.client = self._client.principal.name, header.client_id or ""
        self.worked_s += worked_s
        if header.api_key == PRODUCE:
            self.produced += size

    def answered(self, header: RequestHeader, size: int) -> None:
        """Take note of an answer that is about to be sent."""
        if header.api_key == FETCH:
            self.fetched += size

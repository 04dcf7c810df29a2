"""The numbers of the HTTP front."""

from collections.abc import Iterator

from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.connection import HttpFront
from chordmq.metrics import Metric, counter, gauge


def http_measures(front: HttpFront, shared: Shared) -> Iterator[Metric]:
    """Yield what was asked for and published, and what is under way."""
    yield counter("chordmq_http_requests", "Requests answered.", front.requests)
    yield counter("chordmq_http_records", "Records published.", shared.appends.records)
    yield counter(
        "chordmq_http_batches", "Batches that they were joined into.", shared.appends.batches
    )
    yield gauge("chordmq_http_streams", "Event streams that are open.", shared.streams.total())
    yield gauge("chordmq_http_held_bytes", "Bodies and answers under way.", shared.held)

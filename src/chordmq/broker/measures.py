"""The numbers of the broker: topics, what came in, what is kept, what is flushed."""

from collections.abc import Callable, Iterator

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.metrics import Metric, counter, gauge


def broker_measures(broker: Broker) -> Iterator[Metric]:
    """Yield sums per topic; a number per partition would be too many to scrape."""

    def rows(read: Callable[[Partition], float]) -> list[tuple[dict[str, str], float]]:
        return [({"topic": t.name}, sum(map(read, t.partitions))) for t in broker.topics]

    yield gauge("chordmq_topics", "Topics that exist.", len(broker.topics))
    yield Metric("chordmq_partitions", "Partitions.", "gauge", rows(lambda partition: 1))
    yield Metric(
        "chordmq_records_in", "Records appended since the start.", "counter",
        rows(lambda partition: partition.records_in),
    )  # fmt: skip
    yield Metric(
        "chordmq_bytes_in", "Bytes appended since the start.", "counter",
        rows(lambda partition: partition.bytes_in),
    )  # fmt: skip
    yield Metric(
        "chordmq_log_bytes", "Bytes kept on disk.", "gauge",
        rows(lambda partition: partition.log.size),
    )  # fmt: skip
    yield Metric(
        "chordmq_log_unflushed_records", "Records that a power cut would take.", "gauge",
        rows(lambda partition: partition.log.end_offset - partition.log.flushed_offset),
    )  # fmt: skip
    yield counter("chordmq_flushes", "Flushes of logs to disk.", broker.shared.flusher.flushes)
    yield gauge(
        "chordmq_writes_refused", "1 while the disk is too full to take writes.",
        float(bool(broker.shared.full)),
    )  # fmt: skip

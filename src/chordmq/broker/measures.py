"""The numbers of the broker: topics, what came in, what is kept, what is flushed."""

from collections import Counter
from collections.abc import Callable, Iterator

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursor import Cursor
from chordmq.broker.partition import Partition
from chordmq.broker.security.auth import Authenticator
from chordmq.metrics import Metric, counter, gauge
from chordmq.storage.disk_space import Space


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
        "chordmq_bytes_out", "Bytes read by consumers since the start.", "counter",
        rows(lambda partition: partition.bytes_out),
    )  # fmt: skip
    yield Metric(
        "chordmq_log_bytes", "Bytes kept on disk.", "gauge",
        rows(lambda partition: partition.log.size),
    )  # fmt: skip
    yield Metric(
        "chordmq_log_unflushed_records", "Records that a power cut would take.", "gauge",
        rows(lambda partition: partition.log.end_offset - partition.log.flushed_offset),
    )  # fmt: skip
    yield Metric(
        "chordmq_log_corruptions", "Places on disk whose checksum is wrong.", "gauge",
        rows(lambda partition: len(partition.log.corruptions)),
    )  # fmt: skip
    yield from node_measures(broker)
    yield from group_measures(broker)
    yield from cursor_measures(broker)


def node_measures(broker: Broker) -> Iterator[Metric]:
    """Yield the numbers that all topics share."""
    disk, scrub = broker.upkeep.disk, broker.upkeep.scrub
    yield counter("chordmq_flushes", "Flushes of logs to disk.", broker.shared.flusher.flushes)
    yield counter(
        "chordmq_journal_rounds", "Writes to the journal, each for flushes of one or more logs.",
        broker.shared.flusher.rounds,
    )  # fmt: skip
    yield counter(
        "chordmq_disk_waits", "Reads of clients and copies that waited for the disk.",
        broker.shared.read_ahead.fetched,
    )  # fmt: skip
    yield counter("chordmq_audit_records", "Records of the audit trail.", broker.audit.written)
    yield counter(
        "chordmq_audit_dropped", "Events that the audit trail had no room for.",
        broker.audit.dropped,
    )  # fmt: skip
    yield gauge("chordmq_tail_bytes", "Newest records kept in memory.", broker.tail.bytes_used)
    yield counter("chordmq_scrub_bytes", "Bytes read again and checked.", scrub.bytes_checked)
    yield gauge("chordmq_disk_free_bytes", "Room left on the disk.", disk.free_bytes)
    yield gauge("chordmq_disk_bytes", "Size of the disk.", disk.total_bytes)
    yield gauge("chordmq_disk_is_low", "1 when room is short.", disk.state is not Space.OK)
    yield gauge(
        "chordmq_writes_refused", "1 while the disk is too full to take writes.",
        bool(broker.shared.full),
    )  # fmt: skip


def group_measures(broker: Broker) -> Iterator[Metric]:
    """Yield how many groups are in which state."""
    if broker.groups.loaded.is_set():
        states = Counter(group.state.name.lower() for group in broker.groups.groups())
        rows = [({"state": state}, count) for state, count in sorted(states.items())]
        yield Metric("chordmq_groups", "Consumer groups.", "gauge", rows)


def cursor_measures(broker: Broker) -> Iterator[Metric]:
    """Yield how far the groups are that share an index."""

    def rows(read: Callable[[Cursor], float]) -> list[tuple[dict[str, str], float]]:
        cursors = broker.cursors
        return [({"group": g}, sum(map(read, cursors.of_group(g)))) for g in cursors.groups()]

    yield Metric(
        "chordmq_cursor_lag", "Records that a share group has not finished.", "gauge",
        rows(lambda cursor: cursor.lag),
    )  # fmt: skip
    yield Metric(
        "chordmq_cursor_in_flight", "Records that consumers of a share group hold.", "gauge",
        rows(lambda cursor: cursor.machine.in_flight),
    )  # fmt: skip


def login_measures(authenticator: Authenticator) -> Iterator[Metric]:
    """Yield how often clients logged in, failed to, or were put off."""
    yield Metric(
        "chordmq_logins", "Logins by mechanism and outcome.", "counter",
        [
            ({"mechanism": mechanism, "outcome": outcome}, count)
            for (mechanism, outcome), count in sorted(authenticator.counts.items())
        ],
    )  # fmt: skip
    if authenticator.breakers:
        from chordmq.client.breaker import breaker_measures

        yield from breaker_measures(authenticator.breakers)

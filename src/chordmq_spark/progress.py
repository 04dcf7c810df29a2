"""How far each query is: gathered from Spark as it goes, and shown as metrics."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


@dataclass(slots=True)
class QueryState:
    """What is known of one query."""

    running: bool = True
    batch: int = -1
    rows: int = 0
    failures: int = 0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    duration_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    lag: int = 0
    error: str = ""
    offsets: dict[str, Any] = field(default_factory=dict)


class Progress(StreamingQueryListener, Collector):
    """Listens to all queries of a session; keeps the newest facts of each by its name."""

    def __init__(self) -> None:
        self.queries: dict[str, QueryState] = {}
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Count a query as running."""
        name = event.name or str(event.id)
        self._names[str(event.id)] = name
        known = self.queries.setdefault(name, QueryState())
        known.running, known.error = True, ""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take over what Spark says of a finished batch."""
        progress = event.progress
        name = progress.name or str(progress.id)
        known = self.queries.setdefault(name, QueryState())
        known.batch = progress.batchId
        known.rows += progress.numInputRows
        known.input_rate = progress.inputRowsPerSecond
        known.processed_rate = progress.processedRowsPerSecond
        known.duration_ms = progress.batchDuration
        known.state_rows = sum(one.numRowsTotal for one in progress.stateOperators)
        known.state_bytes = sum(one.memoryUsedBytes for one in progress.stateOperators)
        for source in progress.sources:
            known.offsets = _json(source.endOffset)
            known.lag = behind(known.offsets, _json(source.latestOffset))

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: a query without work has told its last progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that a query has ended, and why."""
        known = self.queries.setdefault(self._names.get(str(event.id), str(event.id)), QueryState())
        known.running = False
        if event.exception:
            known.failures += 1
            known.error = event.exception.splitlines()[0][:500]

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the facts for Prometheus."""
        for name, (text, read) in GAUGES.items():
            family = GaugeMetricFamily(f"chordmq_pipeline_{name}", text, labels=["query"])
            for query, known in self.queries.items():
                family.add_metric([query], float(getattr(known, read)))
            yield family
        for name, (text, read) in COUNTERS.items():
            counter = CounterMetricFamily(f"chordmq_pipeline_{name}", text, labels=["query"])
            for query, known in self.queries.items():
                counter.add_metric([query], float(getattr(known, read)))
            yield counter


GAUGES = {
    "running": ("Whether the query runs.", "running"),
    "batch": ("Number of the last batch.", "batch"),
    "lag_records": ("Offsets between the query and the end of its topics.", "lag"),
    "input_rows_per_second": ("Rows that arrived per second.", "input_rate"),
    "processed_rows_per_second": ("Rows that were processed per second.", "processed_rate"),
    "batch_duration_milliseconds": ("How long the last batch took.", "duration_ms"),
    "state_rows": ("Rows that the query remembers.", "state_rows"),
    "state_bytes": ("Memory of what the query remembers.", "state_bytes"),
}
COUNTERS = {
    "rows": ("Rows that the query has read.", "rows"),
    "failures": ("How often the query has failed.", "failures"),
}


def behind(offsets: dict[str, Any], latest: dict[str, Any]) -> int:
    """Return how many offsets lie between two positions."""
    return sum(
        max(0, end - offsets.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, end in partitions.items()
    )


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

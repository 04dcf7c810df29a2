"""How far each query is: gathered from Spark as it goes, and shown as metrics."""

import json
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from chordmq.iot.queries import COUNTERS, GAUGES, PREFIX, QueryState


class Progress(StreamingQueryListener, Collector):
    """Listens to all queries of a session; keeps the newest facts of each by its name."""

    def __init__(self) -> None:
        self.queries: dict[str, QueryState] = {}
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Count a query as running."""
        name = event.name or str(event.id)
        self._names[str(event.id)] = name
        self._known(name).running = True

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take over what Spark says of a finished batch."""
        progress = event.progress
        name = progress.name or str(progress.id)
        known = self._known(name)
        known.batch = progress.batchId
        known.rows += progress.numInputRows
        known.input_rows_per_second = progress.inputRowsPerSecond
        known.processed_rows_per_second = progress.processedRowsPerSecond
        known.batch_duration_milliseconds = progress.batchDuration
        known.state_rows = sum(one.numRowsTotal for one in progress.stateOperators)
        known.state_bytes = sum(one.memoryUsedBytes for one in progress.stateOperators)
        for source in progress.sources:
            known.lag_records = behind(_json(source.endOffset), _json(source.latestOffset))

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: a query without work has told its last progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that a query has ended, and whether it failed."""
        known = self._known(self._names.get(str(event.id), str(event.id)))
        known.running = False
        known.failures += bool(event.exception)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the facts for Prometheus."""
        for families, texts in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, text in texts.items():
                family = families(f"{PREFIX}{name}", text, labels=["query"])
                for query, known in self.queries.items():
                    family.add_metric([query], float(getattr(known, name)))
                yield family

    def _known(self, name: str) -> QueryState:
        return self.queries.setdefault(name, QueryState(query=name, running=True))


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

"""Runs the jobs of the pipeline in one Spark, and starts a query again that has failed."""

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, start_http_server
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chordmq.logs import get_logger
from chordmq_spark.jobs import analytics, tables, telemetry
from chordmq_spark.progress import Progress
from chordmq_spark.settings import PipelineSettings

Start = Callable[[SparkSession, PipelineSettings], StreamingQuery]

JOBS: dict[str, dict[str, Start]] = {
    "telemetry": {telemetry.NAME: telemetry.start},
    "analytics": {
        analytics.WATCH: analytics.start_watch,
        analytics.WINDOWS: analytics.start_aggregates,
    },
    "tables": {tables.NAME: tables.start},
}
ENDLESS = frozenset({analytics.WATCH})
REST_FIRST_S, REST_MOST_S = 1.0, 60.0
LOOK_S = 1.0
ATTEMPTS_ONCE = 3

_log = get_logger("chordmq.pipeline")


class UnknownJob(ValueError):
    """No job has that name."""


def queries_of(names: Iterable[str], *, once: bool = False) -> dict[str, Start]:
    """Return the queries of the named jobs; `all` names every job.

    One that waits for devices to fall silent has no end, and is left out when there is to be one.
    """
    chosen: dict[str, Start] = {}
    for name in names:
        if name != "all" and name not in JOBS:
            raise UnknownJob(f"there is no job {name}; there are {', '.join(JOBS)} and all")
        for job, queries in JOBS.items():
            if name in ("all", job):
                chosen |= queries
    return {name: start for name, start in chosen.items() if not (once and name in ENDLESS)}


@dataclass(slots=True)
class Pipeline:
    """The queries of some jobs, kept running."""

    spark: SparkSession
    settings: PipelineSettings
    starts: dict[str, Start]
    progress: Progress = field(default_factory=Progress)
    _running: dict[str, StreamingQuery] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, metrics_port: int | None = None) -> None:
        """Run until `stop` is called or, with `once`, until everything there is has been read."""
        self.spark.streams.addListener(self.progress)
        if metrics_port is not None:
            registry = CollectorRegistry()
            registry.register(self.progress)
            try:
                start_http_server(metrics_port, addr="127.0.0.1", registry=registry)
            except OSError as error:
                _log.warning("no metrics", port=metrics_port, error=str(error))
        for name, start in self.starts.items():
            self._running[name] = start(self.spark, self.settings)
            _log.info("query started", query=name)
        if self.settings.once:
            for name in self.starts:
                self._finish(name)
            return
        self._keep_running()

    def stop(self) -> None:
        """Let `run` come to its end; may be called from a signal handler."""
        self._stopping.set()

    def _finish(self, name: str) -> None:
        """Wait for the end of a query; one that fails goes on from its checkpoint, some times."""
        for attempts_left in reversed(range(ATTEMPTS_ONCE)):
            try:
                self._running[name].awaitTermination()
            except StreamingQueryException as error:
                if not attempts_left:
                    raise
                _log.warning("query failed", query=name, error=str(error).splitlines()[0][:300])
                self._running[name] = self.starts[name](self.spark, self.settings)
            else:
                return

    def _keep_running(self) -> None:
        rests: dict[str, float] = {}
        while not self._stopping.wait(LOOK_S):
            for name, query in list(self._running.items()):
                if query.isActive:
                    continue
                rest_s = rests[name] = min(REST_MOST_S, rests.get(name, REST_FIRST_S / 2) * 2)
                _log.error("query failed", query=name, error=_first_line(query), rest_s=rest_s)
                if self._stopping.wait(rest_s * random.uniform(0.5, 1.0)):  # noqa: S311  jitter
                    break
                self._running[name] = self.starts[name](self.spark, self.settings)
        for query in self._running.values():
            query.stop()


def _first_line(query: StreamingQuery) -> str:
    error = query.exception()
    return str(error).splitlines()[0][:300] if error else "it ended by itself"

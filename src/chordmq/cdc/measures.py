"""The numbers of one source: what it has told, how late it is, and whether all is well."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from chordmq.cdc.change import Position
from chordmq.clock import Clock
from chordmq.metrics import Histogram, Metric

LATE_S = 60.0
"""Without a stored step for so long, and with something to store, a source is not healthy."""


class State(StrEnum):
    """What a source is doing."""

    STARTING = "starting"
    SNAPSHOT = "snapshot"
    STREAMING = "streaming"
    WAITING = "waiting"
    """Something failed; it is tried again."""
    FAILED = "failed"


class Measures:
    """Counts for one source, whatever its database."""

    def __init__(self, source: str, clock: Clock) -> None:
        self.source = source
        self.state = State.STARTING
        self.failure = ""
        self.changes = 0
        self.records = 0
        self.size = 0
        self.steps = 0
        self.restarts = 0
        self.spoiled = 0
        self.queued = 0
        self.position: Position | None = None
        self.write_s = Histogram()
        self.lag: Mapping[str, float] = {}
        self._clock = clock
        self._stored_s = clock.monotonic_s()

    def stored(self, position: Position, changes: int, records: int, size: int) -> None:
        """Count a step that is in the log."""
        self.changes += changes
        self.records += records
        self.size += size
        self.steps += 1
        self.position = position
        self.state = State.SNAPSHOT if position.snapshot else State.STREAMING
        self.failure = ""
        self._stored_s = self._clock.monotonic_s()

    def failed(self, reason: str, *, for_good: bool = False) -> None:
        """Take note of what went wrong."""
        self.state = State.FAILED if for_good else State.WAITING
        self.failure = reason
        self.restarts += not for_good

    @property
    def behind_s(self) -> float:
        """Return how old the last change was when it was stored, or is while more wait."""
        if self.position is None or not self.position.time_us or not self.queued:
            return 0.0
        return max(0.0, self._clock.now_ms() / 1000 - self.position.time_us / 1_000_000)

    @property
    def healthy(self) -> bool:
        """Return whether changes come through."""
        if self.state in (State.FAILED, State.WAITING):
            return False
        return not self.queued or self._clock.monotonic_s() - self._stored_s < LATE_S

    def summary(self) -> dict[str, object]:
        """Return what /health says."""
        position = self.position
        return {
            "source": self.source,
            "state": self.state,
            "healthy": self.healthy,
            "failure": self.failure,
            "position": position.at if position else None,
            "snapshot_rows": position.snapshot.rows if position and position.snapshot else None,
            "snapshot_left": position.snapshot.todo if position and position.snapshot else None,
            "changes": self.changes,
            "lag": {"seconds": self.behind_s, **self.lag},
        }

    def read(self) -> Iterator[Metric]:
        """Yield the numbers for Prometheus."""
        labels = {"source": self.source}
        counters = {
            "changes": ("Changes that were told.", self.changes),
            "records": ("Records that were written for them.", self.records),
            "bytes": ("Size of these records.", self.size),
            "transactions": ("Steps that were written.", self.steps),
            "restarts": ("Times that the source was opened again.", self.restarts),
            "dead_letters": ("Changes that could not be told.", self.spoiled),
        }
        for name, (text, value) in counters.items():
            yield Metric(f"chordmq_cdc_{name}", text, "counter", [(labels, value)])
        gauges: dict[str, tuple[str, float]] = {
            "up": ("1 if changes come through.", float(self.healthy)),
            "lag_seconds": ("Age of the last stored change, if more wait.", self.behind_s),
            "queued": ("Records that are read and not yet written.", self.queued),
            "snapshot": ("1 while a snapshot is read.", float(self.state is State.SNAPSHOT)),
        }
        gauges |= {name: ("As the database says.", value) for name, value in self.lag.items()}
        for name, (text, level) in gauges.items():
            yield Metric(f"chordmq_cdc_{name}", text, "gauge", [(labels, level)])
        yield Metric(
            "chordmq_cdc_write_seconds", "Time from reading a change until it is in the log.",
            "histogram", [(labels, self.write_s)],
        )  # fmt: skip

"""What a pipe copies and what not: positions, origins, health and pace (pure)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from chordmq.records.record import NewRecord, Record

ORIGIN = "chordmq.origin"
"""Header of every copied record: where it was first written, `node:topic id/offset`."""
POSITION = "chordmq.position"
"""Header of the last record of a copied batch: the `Progress` after it."""

DEGRADED_LAG = 100_000
UNHEALTHY_LAG = 10_000_000
OUTCOMES_MAX = 20
DEGRADED_RATE, UNHEALTHY_RATE = 0.1, 0.5


class Progress(msgspec.Struct, omit_defaults=True):
    """How far one partition has come: it lies in the log with the records that it speaks of."""

    next: dict[str, int] = {}
    """The offset to go on from, by source."""
    seen: dict[str, int] = {}
    """The highest offset that is here, by origin."""

    def copied(self) -> "Progress":
        """Return the same, to be changed."""
        return Progress(dict(self.next), dict(self.seen))


class Copied(msgspec.Struct, frozen=True):
    """What is to be appended, and where the partition stands after it."""

    records: list[NewRecord]
    progress: Progress


def origin_of(record: Record, source: str) -> tuple[str, int]:
    """Return where a record of a source was first written, and its offset there."""
    for name, value in record.headers:
        if name == ORIGIN and value is not None:
            node, slash, offset = value.rpartition(b"/")
            if slash and offset.isdigit():
                return node.decode(errors="replace"), int(offset)
    return source, record.offset


def source_of(node: str, topic_id: str) -> str:
    """Return the name of a node's topic; one that is made anew is another source."""
    return f"{node}:{topic_id[:8]}"


def copy(
    records: Sequence[Record], *, source: str, own: str, following: int, progress: Progress
) -> Copied:
    """Return what of a source's records is new here; `following` is its next offset.

    Records that were written here first do not come back, and none comes twice, by whichever way:
    of one origin and partition each way brings the offsets in their order.
    """
    after = progress.copied()
    seen = after.seen
    new: list[NewRecord] = []
    for record in records:
        kept = record.headers
        origin, offset = origin_of(record, source) if kept else (source, record.offset)
        if offset <= seen.get(origin, -1) or origin.rpartition(":")[0] == own:
            continue
        seen[origin] = offset
        if kept:
            kept = tuple(pair for pair in kept if pair[0] not in (ORIGIN, POSITION))
        mark = (ORIGIN, f"{origin}/{offset}".encode())
        new.append(NewRecord(record.timestamp, record.key, record.value, (*kept, mark)))
    after.next[source] = max(following, after.next.get(source, 0))
    if new:
        last = new[-1]
        position = (POSITION, msgspec.json.encode(after))
        new[-1] = last._replace(headers=(*last.headers, position))
    return Copied(new, after)


def progress_in(record: Record) -> Progress | None:
    """Return the progress that a record of this node's log carries, if it does."""
    for name, value in record.headers:
        if name == POSITION and value is not None:
            try:
                return msgspec.json.decode(value, type=Progress)
            except msgspec.DecodeError:
                return None
    return None


class Health(Enum):
    """How well a pipe does."""

    HEALTHY = 0
    DEGRADED = 1
    UNHEALTHY = 2


@dataclass(slots=True)
class Vitals:
    """The last outcomes of a pipe and what it has still to get."""

    lag: int = 0
    """Records that the source has and this node has not."""
    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=OUTCOMES_MAX))
    failures_in_a_row: int = 0

    def note(self, *, is_well: bool) -> None:
        """Remember how a request ended."""
        self.outcomes.append(is_well)
        self.failures_in_a_row = 0 if is_well else self.failures_in_a_row + 1

    @property
    def health(self) -> Health:
        """Return how the pipe does, by its error rate and its lag."""
        rate = self.outcomes.count(False) / len(self.outcomes) if self.outcomes else 0.0
        if rate >= UNHEALTHY_RATE or self.lag >= UNHEALTHY_LAG or self.failures_in_a_row >= 3:
            return Health.UNHEALTHY
        if rate >= DEGRADED_RATE or self.lag >= DEGRADED_LAG or self.failures_in_a_row:
            return Health.DEGRADED
        return Health.HEALTHY


class Pace:
    """A limit on bytes per second: what was taken too much is waited for afterwards."""

    def __init__(self, bytes_per_s: int) -> None:
        self._rate = bytes_per_s
        self._free_s = 0.0

    def wait_s(self, size: int, now_s: float) -> float:
        """Count bytes that came, and return how long to wait before more are asked for."""
        if not self._rate:
            return 0.0
        self._free_s = max(self._free_s, now_s) + size / self._rate
        return max(0.0, self._free_s - now_s)


def worst(healths: Sequence[Health]) -> Health:
    """Return how a node with these pipes does."""
    return max(healths, key=lambda one: one.value, default=Health.HEALTHY)

"""What clients of a cluster did and saw, in the order of one clock; kept as lines of JSON."""

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Write:
    """One record that a producer sent; its value is never sent again."""

    value: str
    topic: str
    partition: int
    producer: str
    began_s: float
    ended_s: float | None = None
    outcome: Literal["ok", "failed", "unknown"] = "unknown"
    offset: int | None = None
    transaction: str | None = None

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass(slots=True)
class Transaction:
    """What became of a transaction, as its producer knows it."""

    name: str
    outcome: Literal["committed", "aborted", "unknown"] = "unknown"


@dataclass(slots=True)
class Read:
    """One record that a consumer got; `sequence` counts per consumer and assignment."""

    consumer: str
    sequence: int
    topic: str
    partition: int
    offset: int
    value: str
    assignment: int = 0

    @property
    def place(self) -> Place:
        return self.topic, self.partition


class History:
    """Everything that happened; written from many threads."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.transactions: list[Transaction] = []
        self.reads: list[Read] = []
        """What consumers got while faults happened."""
        self.final: list[Read] = []
        """All that committed readers get once everything is healed."""
        self.leaders: list[tuple[str, int, int]] = []
        """Partition, leader epoch and leader, in the order in which the store took them."""
        self.copies: dict[str, dict[str, str]] = {}
        """A checksum of each copy of each partition, by partition and node, at the very end."""
        self._lock = threading.Lock()

    def write(self, write: Write) -> Write:
        """Take note that a record is about to be sent."""
        with self._lock:
            self.writes.append(write)
        return write

    def transaction(self, name: str) -> Transaction:
        """Take note of a transaction that begins."""
        begun = Transaction(name)
        with self._lock:
            self.transactions.append(begun)
        return begun

    def read(self, read: Read) -> None:
        """Take note of what a consumer got."""
        with self._lock:
            self.reads.append(read)

    def save(self, file: Path) -> None:
        """Keep everything, one fact a line."""
        kinds: dict[str, Iterable[Write | Transaction | Read]] = {
            "write": self.writes,
            "transaction": self.transactions,
            "read": self.reads,
            "final": self.final,
        }
        with file.open("w") as out:
            for kind, facts in kinds.items():
                for fact in facts:
                    out.write(json.dumps({"kind": kind, **asdict(fact)}) + "\n")
            for partition, epoch, leader in self.leaders:
                row = {"kind": "leader", "partition": partition, "epoch": epoch, "leader": leader}
                out.write(json.dumps(row) + "\n")


def now_s() -> float:
    """Return the seconds of the one clock of a run."""
    return time.monotonic()

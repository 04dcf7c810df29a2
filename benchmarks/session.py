"""One broker under test: its topics, its settings of equal durability, and what a load cost it."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import load, sockets
from benchmarks.peers import Peer
from benchmarks.sockets import Rate
from benchmarks.usage import usage_of

GB = 1_000_000_000
# Equal durability: acknowledged when the page cache has it, or when the disk has it.
OURS = {"os": {"flush": "os"}, "disk": {"flush": "disk"}}
PEERS = {"os": {}, "disk": {"flush.messages": "1"}}


class CountMismatch(Exception):
    """A consumer found another number of records than were acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How long and how much to measure."""

    rounds: int
    produce_s: float
    bytes_max: int
    """Bytes after which a produce case ends early, so that the disk does not decide."""
    java_bytes: int
    consume_messages: int
    latency_s: float
    connections: int
    recovery_bytes: int
    spark_rows: int
    pipeline_messages: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value of one broker."""

    name: str
    value: float
    unit: str
    cpu_s: float
    rss_mb: float
    command: str
    goal: str = ""
    """Which target of the table in report.py the ratio must reach."""
    mb_s: float | None = None
    """The same rate in megabytes of record values, where it is a rate of messages."""


def median_of_rounds(load: Callable[[], float], lasting_s: float) -> float:
    """Return the median rate of as many rounds as that takes, at least one."""
    rates: list[float] = []
    began_s = time.perf_counter()
    while not rates or time.perf_counter() - began_s < lasting_s:
        rates.append(load())
    return statistics.median(rates)


@dataclass(slots=True)
class Meter:
    """What the broker spent while the meter ran."""

    cpu_s: float = 0.0
    rss_mb: float = 0.0


@dataclass(slots=True)
class Session:
    """A freshly started broker, measured with one profile."""

    peer: Peer
    ours: bool
    profile: Profile
    written: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Topics that later cases read again: (name, number of records), by what wrote them."""
    _topics: int = 0

    @property
    def bootstrap(self) -> str:
        """Return the broker's address."""
        return self.peer.bootstrap

    def topic(self, partitions: int = 1, durability: str = "os") -> str:
        """Create a new topic that acknowledges when `durability` (os or disk) has the records."""
        self._topics += 1
        name = f"bench-{self._topics}"
        settings = (OURS if self.ours else PEERS)[durability]
        load.create_topic(self.bootstrap, name, partitions, settings)
        return name

    @contextmanager
    def metered(self) -> Iterator[Meter]:
        """Measure what the broker spends inside the block; earlier writes are on disk before."""
        os.sync()
        meter = Meter()
        before = usage_of(self.peer.pid)
        yield meter
        after = usage_of(self.peer.pid)
        meter.cpu_s = after.cpu_s - before.cpu_s
        meter.rss_mb = after.rss_mb

    def expect(self, topic: str, partitions: int, count: int) -> None:
        """Read the topic as a consumer and compare with what was acknowledged."""
        found = sockets.count_records(self.bootstrap, topic, partitions)
        if found != count:
            raise CountMismatch(f"{topic}: {count} records acknowledged, {found} read back")

    def forget_page_cache(self) -> None:
        """Drop the broker's log files from the page cache (posix_fadvise), after writing them."""
        os.sync()
        for path in self.peer.directory.rglob("*.log"):
            drop(path)


def rate_samples(
    name: str, rate: Rate, meter: Meter, command: str, goal: str = "produce"
) -> list[Sample]:
    """Return the rate of a load in messages and what a gigabyte cost; every load has targets."""
    per_gb = meter.cpu_s / (rate.size / GB)
    mb_s = rate.bytes_per_s / 1e6
    cost = (meter.cpu_s, meter.rss_mb, command)
    return [
        Sample(name, rate.per_s, "msg/s", *cost, goal=goal, mb_s=mb_s),
        Sample(f"{name}.cpu_per_gb", per_gb, "CPU s/GB", *cost, goal="cpu"),
    ]


def drop(path: Path) -> None:
    """Have the page cache let go of a file that is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(number)

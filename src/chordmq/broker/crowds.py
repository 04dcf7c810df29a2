"""Measures how much the partitions are read that this node leads, and sends readers to copies."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator

from chordmq.broker.partition import Partition
from chordmq.broker.popularity import Limits, Popularity
from chordmq.clock import Clock
from chordmq.logs import get_logger
from chordmq.metrics import Metric, gauge

INTERVAL_S = 1.0
ANNOUNCE_INTERVAL_S = 30.0
NOWHERE = -1

log = get_logger(__name__)


class Crowds:
    """The popularity of each partition that somebody has read here."""

    def __init__(
        self, partitions: Callable[[], Iterable[Partition]], limits: Limits, clock: Clock
    ) -> None:
        self._partitions = partitions
        self._limits = limits
        self._clock = clock
        self._known: dict[Partition, Popularity] = {}
        self._turn = 0
        self._told_s: dict[Partition, float] = {}
        self.announce: Callable[[Partition, bool], None] | None = None
        """Told which partitions are popular, again and again, and which are no more."""
        self.readers_elsewhere: Callable[[Partition], int] = lambda _: 0
        """Says how many read a partition on nodes without a copy, beyond one for each node."""
        self.sent = 0
        """Readers that were sent to another copy."""

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self.measure()
            await asyncio.sleep(INTERVAL_S)

    def measure(self) -> None:
        """Look at all partitions that this node leads; forget those of others."""
        now_s = self._clock.monotonic_s()
        led: dict[Partition, Popularity] = {}
        for partition in self._partitions():
            if not partition.is_leader:
                continue
            one = self._known.get(partition)
            if one is None:
                one = Popularity(self._limits, partition.bytes_out, now_s)
            elif one.measure(partition.bytes_out, self._readers(partition), now_s):
                self._told_s.pop(partition, None)
                if not one.is_popular and self.announce is not None:
                    self.announce(partition, False)
                log.info(
                    "partition is popular" if one.is_popular else "partition is popular no more",
                    topic=partition.topic, partition=partition.index,
                    bytes_s=round(one.rate), readers=round(one.readers),
                )  # fmt: skip
            led[partition] = one
        self._known = led
        self._announce(now_s)

    def _readers(self, partition: Partition) -> int:
        return partition.readers + self.readers_elsewhere(partition)

    def _announce(self, now_s: float) -> None:
        """Say which partitions are popular, for nodes that have missed it, too."""
        popular = self.popular()
        self._told_s = {one: self._told_s.get(one, -math.inf) for one in popular}
        for partition, told_s in list(self._told_s.items()):
            if self.announce is not None and now_s - told_s >= ANNOUNCE_INTERVAL_S:
                self._told_s[partition] = now_s
                self.announce(partition, True)

    def popular(self) -> list[Partition]:
        """Return the partitions that are popular."""
        return [partition for partition, one in self._known.items() if one.is_popular]

    def is_popular(self, partition: Partition) -> bool:
        """Return whether the copies of a partition should share its readers."""
        known = self._known.get(partition)
        return known is not None and known.is_popular

    def copy_for(self, partition: Partition, offset: int) -> int:
        """Return which other in-sync copy should serve a new reader; NOWHERE if this one does.

        The copies take turns, so that each gets its share of the readers.
        """
        leader = partition.replica.leader if partition.replica is not None else None
        if leader is None or not self.is_popular(partition):
            return NOWHERE
        able = sorted(
            node
            for node in leader.state.isr
            if node == leader.me
            or (node in leader.progress and leader.progress[node].offset >= offset)
        )
        self._turn += 1
        chosen = able[self._turn % len(able)]
        if chosen == leader.me:
            return NOWHERE
        self.sent += 1
        return chosen


def crowd_measures(crowds: Crowds) -> Iterator[Metric]:
    """Yield how many partitions are popular, and how many readers were sent elsewhere."""
    yield gauge(
        "chordmq_popular_partitions",
        "Partitions whose copies share readers.",
        len(crowds.popular()),
    )
    yield Metric(
        "chordmq_readers_sent", "Readers that were sent to another copy.", "counter",
        [({}, crowds.sent)],
    )  # fmt: skip

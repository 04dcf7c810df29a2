"""Which brokers should hold a partition: the next ones clockwise from its place on the ring.

Each broker stands on the ring at many places, so that the shares are even and one that joins or
leaves changes little. This is a proposal: who really holds a partition is written in the cluster's
store, and changes only by a reassignment.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

from chordmq.cluster.ring.identifier import place_of_broker, place_of_partition

VIRTUAL_NODES = 128
"""With 64 the greatest of 4 shares was up to 1.42 times the ideal one, with 128 up to 1.26."""


class Placement:
    """The places of all brokers; made anew when brokers join or leave for good."""

    def __init__(
        self,
        cluster: str,
        brokers: Mapping[int, str],
        racks: Mapping[int, str] | None = None,
        virtual_nodes: int = VIRTUAL_NODES,
    ) -> None:
        """`brokers` are the uuids of the brokers by their numbers; a broker without rack has one
        of its own."""
        stands = sorted(
            (place_of_broker(cluster, uuid, k), broker)
            for broker, uuid in brokers.items()
            for k in range(virtual_nodes)
        )
        self._places = [place for place, _ in stands]
        self._brokers = [broker for _, broker in stands]
        self._count = len(brokers)
        self._racks = {broker: rack for broker, rack in (racks or {}).items() if rack}

    def clockwise(self, place: int) -> Iterator[int]:
        """Yield every broker once, in the order in which they are met from a place on."""
        start = bisect_left(self._places, place)
        met: set[int] = set()
        for broker in [*self._brokers[start:], *self._brokers[:start]]:
            if broker not in met:
                met.add(broker)
                yield broker
                if len(met) == self._count:
                    return

    def replicas(self, topic_id: bytes, index: int, factor: int) -> tuple[int, ...]:
        """Return the brokers for a partition, in as many racks as possible; fewer if there are."""
        return self._chosen(place_of_partition(topic_id, index), factor)

    def observers(
        self, topic_id: bytes, index: int, replicas: tuple[int, ...], count: int
    ) -> tuple[int, ...]:
        """Return the next brokers after those that hold a partition."""
        others = (
            broker
            for broker in self.clockwise(place_of_partition(topic_id, index))
            if broker not in replicas
        )
        return tuple(broker for broker, _ in zip(others, range(count), strict=False))

    def proposal(self, topic_id: bytes, count: int, factor: int) -> list[tuple[int, ...]]:
        """Return the brokers for each partition of a topic, the one that should lead first.

        The ring says who holds a partition; of those the one leads that leads the fewest others
        of the topic, so that each broker has its share of the work.
        """
        led: Counter[int] = Counter()
        proposed = []
        for index in range(count):
            replicas = self.replicas(topic_id, index, factor)
            if not replicas:
                return []
            leader = min(replicas, key=lambda broker: (led[broker], replicas.index(broker)))
            led[leader] += 1
            proposed.append((leader, *(broker for broker in replicas if broker != leader)))
        return proposed

    def _chosen(self, place: int, factor: int) -> tuple[int, ...]:
        chosen: list[int] = []
        passed_over: list[int] = []
        racks: set[str] = set()
        for broker in self.clockwise(place):
            if len(chosen) == factor:
                break
            rack = self._racks.get(broker)
            if rack is not None and rack in racks:
                passed_over.append(broker)
                continue
            chosen.append(broker)
            if rack is not None:
                racks.add(rack)
        return tuple([*chosen, *passed_over][:factor])

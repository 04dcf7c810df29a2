"""Which partitions of other nodes are popular: their leaders tell every node, along the ring."""

from typing import TYPE_CHECKING

import msgspec

from chordmq.cluster.state import NO_LEADER

if TYPE_CHECKING:
    from chordmq.broker.partition import Partition
    from chordmq.clock import Clock
    from chordmq.cluster.routes import Routes

BELIEVED_S = 90.0
"""How long an announcement counts; leaders repeat theirs more often."""


class Popular(msgspec.Struct, frozen=True, array_like=True):
    """A leader says whether the copies of a partition should share its readers."""

    topic: str
    partition: int
    is_popular: bool


class Announcements:
    """What this node tells the others, and what it has heard."""

    def __init__(self, routes: "Routes", clock: "Clock") -> None:
        self._routes = routes
        self._clock = clock
        self._heard: dict[tuple[str, int], tuple[int, float]] = {}
        """Who has said that a partition is popular, and until when that counts."""
        routes.watchers.append(self.hear)

    def tell(self, partition: "Partition", is_popular: bool) -> None:
        """Tell every other node, once each."""
        news = Popular(partition.topic, partition.index, is_popular)
        self._routes.broadcast(msgspec.msgpack.encode(news))

    def hear(self, origin: int, payload: bytes) -> None:
        """Take note of what another node tells; what is not understood is for newer ones."""
        try:
            news = msgspec.msgpack.decode(payload, type=Popular)
        except msgspec.MsgspecError:
            return
        place = news.topic, news.partition
        if news.is_popular:
            self._heard[place] = origin, self._clock.monotonic_s() + BELIEVED_S
        elif self._heard.get(place, (NO_LEADER, 0.0))[0] == origin:
            del self._heard[place]

    def is_popular(self, partition: "Partition") -> bool:
        """Return whether the leader of a partition has said that it is popular."""
        leader = partition.replica.leader_hint[0] if partition.replica is not None else NO_LEADER
        origin, until_s = self._heard.get((partition.topic, partition.index), (NO_LEADER, 0.0))
        return origin == leader != NO_LEADER and self._clock.monotonic_s() < until_s

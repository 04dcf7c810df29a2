"""Decides who leads and who holds each partition: what is known in, changes to be made out.

Any broker may do this at any time: a change counts only if nobody has changed the partition since
it was seen. One of them at a time does, so that they do not get in each other's way.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field

from chordmq.cluster.elections import (
    Rules,
    handed_over,
    led_by_preferred,
    reassigned,
    settled,
)
from chordmq.cluster.ring.placement import Placement
from chordmq.cluster.state import PartitionState
from chordmq.dataclass import dataclass

Place = tuple[bytes, int]
"""A topic id and the index of a partition."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A partition's state, and the revision by which a change is compared."""

    state: PartitionState
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """A partition's next state, made from the one that was seen at a revision."""

    place: Place
    revision: int
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a controller knows at one moment."""

    live: Collection[int]
    uuids: Mapping[int, str]
    """Of all registered brokers."""
    racks: Mapping[int, str] = field(default_factory=dict)
    partitions: Mapping[Place, Seen]
    rules: Callable[[bytes], Rules]
    """Returns what a topic's settings say, by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How eagerly partitions are moved."""

    rebalance: bool = True
    """Move partitions to where the ring says, when brokers join or have left for long."""
    rebalance_delay_s: float = 600.0
    """How long a broker may be away before its partitions are copied to others."""
    moves_max: int = 4
    """How many partitions are moved at once."""
    leader_balance_s: float = 60.0
    """How often leadership goes back to the first of the replicas; 0 is never."""


class Controller:
    """Remembers only since when brokers are away, and when leaders were balanced."""

    def __init__(self, cluster: str, settings: ControllerSettings, now_s: float) -> None:
        self._cluster = cluster
        self._settings = settings
        self._away_since_s: dict[int, float] = {}
        self._balanced_s = now_s
        self._placement: Placement | None = None
        self._placed: object = None

    def plan(self, view: View, now_s: float) -> list[Change]:
        """Return the changes that are due."""
        self._count_away(view, now_s)
        interval_s = self._settings.leader_balance_s
        balances = bool(interval_s) and now_s - self._balanced_s >= interval_s
        if balances:
            self._balanced_s = now_s
        changes = [
            Change(place, seen.revision, state)
            for place, seen in view.partitions.items()
            if (state := self._next(seen.state, view, place, balances)) != seen.state
        ]
        return [*changes, *self._moves(view, now_s, {change.place for change in changes})]

    def _next(
        self, state: PartitionState, view: View, place: Place, balances: bool
    ) -> PartitionState:
        rules = view.rules(place[0])
        state = settled(handed_over(state, view.live, rules), view.live, rules)
        return led_by_preferred(state, view.live, rules) if balances else state

    def _count_away(self, view: View, now_s: float) -> None:
        self._away_since_s = {
            broker: self._away_since_s.get(broker, now_s)
            for broker in view.uuids
            if broker not in view.live
        }

    def _moves(self, view: View, now_s: float, changing: Collection[Place]) -> Iterator[Change]:
        """Yield the next partitions to be moved to where the ring says, a few at a time."""
        if not self._settings.rebalance:
            return
        moving = sum(bool(s.state.adding or s.state.removing) for s in view.partitions.values())
        room = self._settings.moves_max - moving
        placement = self._ring(view, now_s)
        for place, seen in sorted(view.partitions.items()):
            if room <= 0:
                return
            state = seen.state
            if place in changing or state.adding or state.removing or not state.replicas:
                continue
            if not view.rules(place[0]).follows_ring:
                continue
            wanted = placement.replicas(*place, len(state.replicas))
            if len(wanted) == len(state.replicas) and set(wanted) != set(state.replicas):
                room -= 1
                kept = [one for one in state.replicas if one in wanted]
                target = [*kept, *(one for one in wanted if one not in kept)]
                yield Change(place, seen.revision, reassigned(state, target))

    def _ring(self, view: View, now_s: float) -> Placement:
        """Return the ring of all brokers but those that have been away for long."""
        delay_s = self._settings.rebalance_delay_s
        there = {
            broker: uuid
            for broker, uuid in view.uuids.items()
            if broker in view.live or now_s - self._away_since_s[broker] < delay_s
        }
        if self._placement is None or self._placed != (there, view.racks):
            self._placed = (there, dict(view.racks))
            self._placement = Placement(self._cluster, there, view.racks)
        return self._placement

"""Routing rules that operators give while nodes run: kept in the store, in force on all nodes."""

from typing import NamedTuple

from chordmq.broker.names import Names, Rule, check_rule
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Delete, Event, Put
from chordmq.cluster.state import ROUTES, RouteState, decode, encode, name_of, named_key
from chordmq.errors import PolicyViolation, UnknownRoute

RULES_MAX = 1_000


class Ranked(NamedTuple):
    """A rule of the store; those of a lower rank are asked first."""

    rank: int
    rule: Rule


class Routing:
    """The rules of the store, before those of the configuration."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.names = Names()
        self.configured: tuple[Rule, ...] = ()
        self._stored: dict[str, Ranked] = {}
        image.listen(ROUTES, self._hear)
        self._hear(image.told(ROUTES))

    def follow(self, names: Names) -> None:
        """Have these names go by the rules, from now on."""
        self.names, self.configured = names, names.rules
        self._tell()

    @property
    def stored(self) -> list[Ranked]:
        """Return the rules of the store, in the order in which they are asked."""
        return sorted(self._stored.values(), key=lambda one: (one.rank, one.rule.filter))

    async def put(self, rule: Rule, rank: int) -> None:
        """Add a rule, or replace the one with the same filter; raise what is wrong with it."""
        check_rule(rule)
        if len(self._stored) >= RULES_MAX and rule.filter not in self._stored:
            raise PolicyViolation(f"{RULES_MAX} routing rules are the most there can be")
        state = RouteState(topic=rule.topic, key=rule.key, rank=rank)
        await self._image.commit([], [Put(named_key(ROUTES, rule.filter), encode(state))])

    async def remove(self, wanted: str) -> None:
        """Remove the rule with a filter; raise UnknownRoute if there is none."""
        if wanted not in self._stored:
            raise UnknownRoute(f"no routing rule for {wanted[:100]!r}")
        await self._image.commit([], [Delete(named_key(ROUTES, wanted))])

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            wanted = name_of(event.key)
            if event.entry is None:
                self._stored.pop(wanted, None)
            else:
                state = decode(event.entry, RouteState)
                self._stored[wanted] = Ranked(state.rank, Rule(wanted, state.topic, state.key))
        self._tell()

    def _tell(self) -> None:
        self.names.change([*(one.rule for one in self.stored), *self.configured])

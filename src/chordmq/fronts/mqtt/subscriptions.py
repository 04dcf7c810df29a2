"""Who wants which names: one tree of filters for all sessions, and what it finds, remembered."""

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from chordmq.broker.subscriptions import FilterTree
from chordmq.codecs.mqtt.packets import Options
from chordmq.codecs.mqtt.properties import UserProperties
from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.session import Session
    from chordmq.fronts.mqtt.tails import Tail

REMEMBERED_MAX = 50_000
FULL = ("chordmq.record", "full")
"""A user property of SUBSCRIBE that asks for partition, offset, time and key of each message."""


@dataclass(slots=True, eq=False)
class Subscription:
    """A filter of one session."""

    session: "Session"
    filter: str
    options: Options
    identifier: int = 0
    user: UserProperties = ()
    is_granted: bool = False
    """Whether a rule of `mqtt.acl` allows it, whatever log topics hold it."""
    since: "dict[Tail, int]" = field(default_factory=dict)
    """Where it begins in partitions in which the session is behind."""


class Target(NamedTuple):
    """How one session wants the messages of a name: one copy, whatever filters match."""

    session: "Session"
    qos: int
    identifiers: tuple[int, ...] = ()
    no_local: bool = False
    retain_as_published: bool = False
    is_full: bool = False


def target_of(session: "Session", found: list[Subscription]) -> Target:
    """Return what several filters of one session ask for together."""
    if len(found) == 1:
        one = found[0]
        identifiers = (one.identifier,) if one.identifier else ()
        options = one.options
        return Target(
            session,
            options.qos,
            identifiers,
            options.no_local,
            options.retain_as_published,
            FULL in one.user,
        )
    return Target(
        session,
        max(one.options.qos for one in found),
        tuple(one.identifier for one in found if one.identifier),
        all(one.options.no_local for one in found),
        any(one.options.retain_as_published for one in found),
        any(FULL in one.user for one in found),
    )


class Interest:
    """All subscriptions of all sessions, those of absent clients included."""

    def __init__(self) -> None:
        self._tree: FilterTree[Subscription] = FilterTree()
        self._targets: dict[tuple[str, str], list[Target]] = {}
        self._alike: dict[tuple[Target, ...], list[Target]] = {}
        """The same, once for all names that the same sessions want alike."""

    def __len__(self) -> int:
        return len(self._tree)

    def add(self, subscription: Subscription) -> None:
        """Have a subscription found."""
        self._tree.add(subscription.filter, subscription)
        self.forget_decisions()

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        self._tree.remove(subscription.filter, subscription)
        self.forget_decisions()

    def forget_decisions(self) -> None:
        """Ask again who may read what."""
        self._targets.clear()
        self._alike.clear()

    def targets(self, name: str, log_topic: str) -> list[Target]:
        """Return which sessions get a message of a name that lies in a log topic."""
        targets = self._targets.get((name, log_topic))
        if targets is None:
            if len(self._targets) >= REMEMBERED_MAX:
                self.forget_decisions()
            targets = self._targets[name, log_topic] = self._find(name, log_topic)
        return targets

    def _find(self, name: str, log_topic: str) -> list[Target]:
        by_session: dict[Session, list[Subscription]] = {}
        for one in self._tree.find(name):
            if one.session.may_get(name, log_topic, is_granted=one.is_granted):
                by_session.setdefault(one.session, []).append(one)
        targets = [target_of(session, found) for session, found in by_session.items()]
        return self._alike.setdefault(tuple(targets), targets)

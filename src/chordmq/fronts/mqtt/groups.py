"""Groups of clients that share an index: their names, and log topics made while all are away.

The name of a group is what its clients subscribe to: `$share/group/filter`, `$queue/name` for all
of a log topic, or `$queue/name/filter`.
"""

import asyncio
from typing import Protocol

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursor import Policy
from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.cursors.shared_cursor import NO_LIMIT, Limits
from chordmq.broker.names import Names, is_filter
from chordmq.broker.subscriptions import SEPARATOR
from chordmq.broker.topic import Topic
from chordmq.errors import ChordMQError, InvalidPattern

SHARE, QUEUE, STREAM = "$share/", "$queue/", "$stream/"
READ_APART = (SHARE, QUEUE, STREAM)
"""Subscriptions that read the log by themselves, and get no retained messages."""
RETRY_S = 0.2
"""Until a new log topic is opened again, whose leader may not be ready for it yet."""
POLICY = Policy(Limits(lock_ms=NO_LIMIT, deliveries_max=NO_LIMIT), only_stable=True)
"""A client keeps a message until it answers or goes; nothing is given up."""


def parsed(text: str) -> tuple[str, str, str]:
    """Return the kind, the name, and the filter if there is one; raise InvalidPattern."""
    kind = next(kind for kind in READ_APART if text.startswith(kind))
    name, slash, wanted = text.removeprefix(kind).partition(SEPARATOR)
    if not name or is_filter(name) or (slash and not wanted) or (kind == SHARE and not wanted):
        raise InvalidPattern(f"{text[:100]!r} is not {kind}name/filter")
    return kind, name, wanted


class Member(Protocol):
    """One client's part in a group."""

    @property
    def is_there(self) -> bool:
        """Return whether the client is connected."""
        ...

    def wake(self) -> None:
        """Look again what there is to take."""
        ...


class Groups:
    """The groups that are known, with or without clients."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._known: dict[str, tuple[str, str]] = {}
        """The log topic or the filter of each."""
        self._bound: dict[str, dict[Member, None]] = {}
        """Members that divide the partitions among them, by group."""

    def note(self, group: str, log_topic: str, wanted: str) -> None:
        """Take note of a group."""
        self._known[group] = (log_topic, wanted)

    def bind(self, group: str, member: Member) -> None:
        """Let a member have partitions for itself, as long as there are enough."""
        self._bound.setdefault(group, {})[member] = None
        self.divide(group)

    def unbind(self, group: str, member: Member) -> None:
        """Divide the partitions among the others."""
        self._bound.get(group, {}).pop(member, None)
        self.divide(group)

    def divide(self, group: str) -> None:
        """Have all members look again which partitions are theirs."""
        for member in self._bound.get(group, ()):
            member.wake()

    def share_of(self, group: str, member: Member) -> tuple[int, int]:
        """Return the number of a member among those that are there, and how many these are."""
        there = [one for one in self._bound.get(group, ()) if one.is_there]
        return (there.index(member), len(there)) if member in there else (0, 1)

    def load(self) -> None:
        """Take note of the groups that have an index in the log."""
        for group in self._broker.cursors.groups():
            if group.startswith((SHARE, QUEUE)):
                try:
                    _, name, wanted = parsed(group)
                except InvalidPattern:
                    continue
                self.note(group, "" if wanted else name, wanted)

    async def reach(self, topics: list[Topic]) -> None:
        """Let groups begin at the beginning of log topics that were made just now."""
        for group, (log_topic, wanted) in list(self._known.items()):
            for topic in topics:
                is_wanted = (
                    topic.name == log_topic
                    if log_topic
                    else self._names.reach(wanted).covers(topic.name)
                )
                if is_wanted:
                    await self._begin(group, topic)

    async def _begin(self, group: str, topic: Topic) -> None:
        for partition in list(topic.partitions):
            while not partition.is_closed:  # as it is when the topic is gone
                try:
                    await self._broker.cursors.open(
                        group, topic.name, partition.index, start_ms=EARLIEST, policy=POLICY
                    )
                    break
                except ChordMQError:
                    await asyncio.sleep(RETRY_S)

"""Who reads which partitions: the assignors that a group of the consumer protocol can choose.

Both are pure functions of the members with their topics, the topics with their partitions, and
what each member was to have before. Every partition of a topic that somebody reads is given to
exactly one of its readers.
"""

import heapq
from collections.abc import Callable, Mapping

from chordmq.dataclass import dataclass

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""
Assignment = frozenset[Place]
NOTHING: Assignment = frozenset()


@dataclass(frozen=True, slots=True)
class Reader:
    """A member as an assignor sees it."""

    topics: frozenset[bytes]
    instance_id: str | None = None
    before: Assignment = NOTHING
    """What the member was to have until now, whether or not it has got it."""


Readers = Mapping[str, Reader]
Assignor = Callable[[Readers, Mapping[bytes, int]], dict[str, Assignment]]
"""Makes an assignment of members by id and of numbers of partitions by topic."""


def assign_uniform(readers: Readers, partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Give every member as many partitions as any other, and move as few as that takes.

    Where members read different topics, a partition moves as long as that evens out two of them.
    """
    given = _kept(readers, partitions)
    free = _free(readers, partitions, given)
    if len({reader.topics for reader in readers.values()}) == 1:
        free += _surplus(given, len(free) + sum(map(len, given.values())))
    _hand_out(readers, given, free)
    _even_out(readers, given)
    return {member_id: frozenset(places) for member_id, places in given.items()}


def assign_ranges(readers: Readers, partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Cut each topic into runs of neighbours, one per reader, in the same order in all topics.

    Members with the same topics so get the same indexes of each, as joins of topics need.
    """
    given: dict[str, set[Place]] = {member_id: set() for member_id in readers}
    for topic, count in partitions.items():
        takers = sorted(
            (member_id for member_id, reader in readers.items() if topic in reader.topics),
            key=lambda member_id: _rank(member_id, readers[member_id]),
        )
        start = 0
        for number, member_id in enumerate(takers):
            end = start + count // len(takers) + (number < count % len(takers))
            given[member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(places) for member_id, places in given.items()}


def _rank(member_id: str, reader: Reader) -> tuple[bool, str]:
    """Return a member's place in the order: static ones keep theirs over restarts."""
    return reader.instance_id is None, reader.instance_id or member_id


def _kept(readers: Readers, partitions: Mapping[bytes, int]) -> dict[str, set[Place]]:
    """Return what each member had and may still have."""
    taken: set[Place] = set()
    kept = {}
    for member_id in sorted(readers):
        reader = readers[member_id]
        places = {
            place
            for place in reader.before
            if place[0] in reader.topics and place[1] < partitions.get(place[0], 0)
        }
        kept[member_id] = places - taken
        taken |= places
    return kept


def _free(
    readers: Readers, partitions: Mapping[bytes, int], given: Mapping[str, set[Place]]
) -> list[Place]:
    """Return the partitions that somebody reads and nobody has, those with few readers first."""
    taken = set().union(*given.values())
    counts = {
        topic: sum(topic in reader.topics for reader in readers.values()) for topic in partitions
    }
    return [
        (topic, index)
        for topic in sorted(partitions, key=lambda topic: (counts[topic], topic))
        if counts[topic]
        for index in range(partitions[topic])
        if (topic, index) not in taken
    ]


def _surplus(given: dict[str, set[Place]], total: int) -> list[Place]:
    """Take from members that read the same topics what is more than their part."""
    quota, extra = divmod(total, len(given))
    taken: list[Place] = []
    for places in sorted(given.values(), key=len, reverse=True):
        may_have = quota + (extra > 0)
        extra -= len(places) > quota
        while len(places) > may_have:
            place = max(places)
            places.remove(place)
            taken.append(place)
    return taken


def _hand_out(readers: Readers, given: dict[str, set[Place]], free: list[Place]) -> None:
    """Give each partition to the reader that has the fewest."""
    queues: dict[bytes, list[tuple[int, str]]] = {}
    for place in free:
        topic = place[0]
        if topic not in queues:
            queues[topic] = [
                (len(given[member_id]), member_id)
                for member_id, reader in readers.items()
                if topic in reader.topics
            ]
            heapq.heapify(queues[topic])
        queue = queues[topic]
        while queue[0][0] != len(given[queue[0][1]]):  # it was given more under another topic
            heapq.heapreplace(queue, (len(given[queue[0][1]]), queue[0][1]))
        count, member_id = queue[0]
        given[member_id].add(place)
        heapq.heapreplace(queue, (count + 1, member_id))


def _even_out(readers: Readers, given: dict[str, set[Place]]) -> None:
    """Move partitions from members with more to members with at least two less."""
    moved = True
    while moved:
        moved = False
        counts = sorted(given, key=lambda member_id: (len(given[member_id]), member_id))
        if not counts or len(given[counts[-1]]) - len(given[counts[0]]) < 2:
            return
        for taker in counts:
            for giver in reversed(counts):
                if len(given[giver]) - len(given[taker]) < 2:
                    break
                topics = readers[taker].topics
                place = max((p for p in given[giver] if p[0] in topics), default=None)
                if place is not None:
                    given[giver].remove(place)
                    given[taker].add(place)
                    moved = True


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_ranges}

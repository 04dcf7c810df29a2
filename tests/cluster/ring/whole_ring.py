"""Rings of any size, whole from the start, whose members talk without a network."""

from bisect import bisect_left
from collections import deque
from random import Random

from chordmq.cluster.ring.identifier import BITS, SIZE, owned
from chordmq.cluster.ring.member import Member
from chordmq.codecs.peer.ring import Message, Notify, Request, Spread


def whole_ring(count: int, seed: int = 1) -> dict[int, Member]:
    """Return members that know their neighbours and all their fingers."""
    chance = Random(seed)
    places = sorted({chance.randrange(SIZE) for _ in range(count)})
    registered = tuple(places)
    members = {}
    for position, me in enumerate(places):
        member = Member(me, 1)
        following = [places[(position + step) % count] for step in range(1, min(count, 4))]
        member.neighbourhood.begin((*following, places[position - 1]))
        member.neighbourhood.registered = registered
        for k in range(BITS - 1, -1, -1):
            if following and owned(me, member.fingers.place(k), following[0]):
                break
            member.fingers.fix(k, owner(places, member.fingers.place(k)))
        members[me] = member
    return members


def owner(places: list[int], key: int) -> int:
    """Return who owns a key."""
    return places[bisect_left(places, key) % len(places)]


def exchange(members: dict[int, Member], start: int) -> tuple[int, int]:
    """Deliver everything, in order; return how many spreads were sent, and how deep they went."""
    waiting: deque[tuple[int, int, Message, int]] = deque()
    spreads = deepest = 0

    def take(me: int, depth: int) -> None:
        for target, message in members[me].take_outbox():
            waiting.append((me, target, message, depth))

    take(start, 1)
    while waiting:
        source, target, message, depth = waiting.popleft()
        spreads += isinstance(message, Spread)
        asker, asked = members[source], members.get(target)
        if isinstance(message, Notify):
            if asked is not None:
                asked.notified(message)
        elif isinstance(message, Request):
            answer = asked.answer(message) if asked is not None else None
            if answer is None:
                asker.failed(message.number)
            else:
                asker.receive(answer)
                if isinstance(message, Spread):
                    deepest = max(deepest, depth)
        take(source, depth)
        if asked is not None:
            take(target, depth + 1)
    return spreads, deepest

"""The ring under a seeded schedule: members join, crash, come back, and messages take their time.

Half of the schedules keep to what Zave's proof assumes: failures are seen rightly, and never too
many at once. There her invariant must hold after each change: every member has a live successor,
and at least r+1 members are principal, that is, skipped by no list, those in answers under way
included. The others assume nothing: networks part, members are suspected wrongly, the registry
lags, whole clusters start at once. There, once that ends, the ring must become whole by itself,
find every key's owner and reach all with each broadcast.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from random import Random

from chordmq.cluster.ring.identifier import BITS, SIZE, between
from chordmq.cluster.ring.member import Member
from chordmq.cluster.ring.neighbourhood import Neighbourhood
from chordmq.cluster.ring.post import Post
from chordmq.codecs.peer.ring import Answer, Ask, Message, Neighbours, Notify, Request, Spread

PLACES = 64
FINGERS = 6
FAR_APART = [place << (BITS - FINGERS) for place in range(PLACES)]
"""The same places all around the ring, so that there are no more fingers than needed."""
STEPS = 200
ROUNDS_MAX = 80


class Violation(AssertionError):
    """Something happened that must never happen."""


class Chord(Neighbourhood):
    """Without the registry's help: the protocol of the proof, whatever the number of members."""

    @property
    def is_small(self) -> bool:
        return False

    def _anchor(self) -> int | None:
        return None


class Anchored(Chord):
    """With the registry as anchor, whatever the number of members."""

    def _anchor(self) -> int | None:
        return Neighbourhood._anchor(self)


Kind = Callable[[int, Post, int], Neighbourhood]


@dataclass(frozen=True, slots=True)
class Failed:
    """Nobody will answer the request of this number."""

    number: int


@dataclass(slots=True)
class Flight:
    """A message under way between two lives of two members."""

    source: int
    target: int
    life: int
    """Of the asker, for answers."""
    message: Message | Failed


@cache
def skipped(places: tuple[int, ...]) -> int:
    """Return the places that a list skips, as bits."""
    mask = 0
    for first, last in pairwise(places):
        for place in range(PLACES):
            if between(first, place, last):
                mask |= 1 << place
    return mask


def ideal(me: int, members: list[int], length: int) -> tuple[int, tuple[int, ...]]:
    """Return the predecessor and the successors that a member should have."""
    position = members.index(me)
    others = [*members[position + 1 :], *members[:position]]
    return others[-1], tuple(others[:length])


@dataclass(slots=True)
class Proof:
    """A schedule within the assumptions of the proof."""

    chance: Random
    kind: Kind
    length: int
    nodes: dict[int, Neighbourhood] = field(default_factory=dict)
    posts: dict[int, Post] = field(default_factory=dict)
    lives: dict[int, int] = field(default_factory=dict)
    flights: list[Flight] = field(default_factory=list)
    next_life: int = 1

    def start(self) -> None:
        count = self.chance.randint(self.length + 1, self.length + 6)
        members = sorted(self.chance.sample(range(PLACES), count))
        for me in members:
            self.add(me)
        for me in members:
            position = members.index(me)
            self.nodes[me].begin((*members[position + 1 :], *members[:position]))

    def add(self, me: int) -> None:
        self.posts[me] = Post(self.next_life)
        self.lives[me] = self.next_life
        self.next_life += 1
        self.nodes[me] = self.kind(me, self.posts[me], self.length)
        self.register()

    def register(self) -> None:
        for node in self.nodes.values():
            node.know(self.nodes)

    @property
    def members(self) -> list[int]:
        return sorted(me for me, node in self.nodes.items() if node.is_member)

    def run(self) -> None:
        self.start()
        crashes, joins = self.chance.uniform(0, 0.12), self.chance.uniform(0, 0.12)
        ticks = self.chance.uniform(0.1, 0.5)
        for _ in range(STEPS):
            draw = self.chance.random()
            if draw < crashes:
                self.crash()
            elif draw < crashes + joins:
                self.join()
            elif draw < crashes + joins + ticks or not self.flights:
                self.tick(self.chance.choice(list(self.nodes)))
            else:
                self.deliver(self.chance.randrange(len(self.flights)))
        self.settle()

    def join(self) -> None:
        free = [place for place in range(PLACES) if place not in self.nodes]
        if len(self.nodes) < 14:
            self.add(self.chance.choice(free))

    def crash(self) -> None:
        victim = self.chance.choice(list(self.nodes))
        if any(
            flight.source == victim and isinstance(flight.message, Neighbours)
            for flight in self.flights
        ):
            return
        node = self.nodes.pop(victim)
        if node.is_member and self.fault():
            self.nodes[victim] = node  # the proof does not allow this failure
            return
        self.register()

    def tick(self, me: int) -> None:
        node = self.nodes[me]
        before = node.is_member, node.successors
        node.step()
        self.sent(me, before)

    def sent(self, me: int, before: tuple[bool, tuple[int, ...]]) -> None:
        for target, message in self.posts[me].take():
            self.flights.append(Flight(me, target, self.lives[me], message))
        node = self.nodes[me]
        if before != (node.is_member, node.successors):
            self.check(me)

    def deliver(self, position: int) -> None:
        flight = self.flights.pop(position)
        node = self.nodes.get(flight.target)
        if isinstance(flight.message, Ask):
            answer = node.answer(flight.message) if node is not None else None
            back = answer or Failed(flight.message.number)
            self.flights.append(Flight(flight.target, flight.source, flight.life, back))
            return
        if node is None:
            return
        before = node.is_member, node.successors
        if isinstance(flight.message, Neighbours):
            node.receive(flight.message)
        elif isinstance(flight.message, Failed):
            node.failed(flight.message.number)
        elif isinstance(flight.message, Notify) and flight.source in self.nodes:
            node.rectify(flight.message)
        self.sent(flight.target, before)

    def fault(self) -> str:
        """Return which part of the invariant is broken, or nothing."""
        members = self.members
        live = sum(1 << member for member in members)
        passed_over = 0
        for me in members:
            successors = self.nodes[me].successors
            if not any(live >> member & 1 for member in successors):
                return f"{me} has no live successor in {successors}"
            passed_over |= skipped((me, *successors))
        for flight in self.flights:
            if isinstance(flight.message, Neighbours):
                listed = (flight.source, *flight.message.successors)
                # Who joins takes the list without its owner.
                named = listed if live >> flight.target & 1 else listed[1:]
                if not any(live >> member & 1 for member in named):
                    return f"an answer to {flight.target} names nobody alive"
                passed_over |= skipped(listed)
        principals = (live & ~passed_over).bit_count()
        if principals <= self.length:
            return f"{principals} principals of {len(members)}"
        return ""

    def check(self, changed: int) -> None:
        if reason := self.fault():
            raise Violation(reason)
        node = self.nodes[changed]
        if node.is_member and len({changed, *node.successors}) != self.length + 1:
            raise Violation(f"{changed} lists {node.successors}")

    def settle(self) -> None:
        """Let everything arrive, and see the ring become whole."""
        for _ in range(ROUNDS_MAX):
            for me in list(self.nodes):
                self.tick(me)
            while self.flights:
                self.deliver(self.chance.randrange(len(self.flights)))
            members = sorted(self.nodes)
            if all(
                (node.predecessor, node.successors) == ideal(me, members, self.length)
                for me, node in self.nodes.items()
            ):
                return
        raise Violation(f"not whole after {ROUNDS_MAX} rounds")


@dataclass(slots=True)
class Wild:
    """A schedule that assumes nothing, of whole members with the registry as their anchor."""

    chance: Random
    kind: Callable[[int, int], Member] = Member
    members: dict[int, Member] = field(default_factory=dict)
    lives: dict[int, int] = field(default_factory=dict)
    flights: list[Flight] = field(default_factory=list)
    side: dict[int, int] = field(default_factory=dict)
    """Which part of a parted network each member is in."""
    next_life: int = 1
    suspicion: float = 0.0
    spreads: int = 0
    """Messages of broadcasts, sent so far."""

    def run(self) -> None:
        chance = self.chance
        for _ in range(chance.randint(1, 9)):
            self.join()
        self.suspicion = chance.choice([0.0, 0.05, 0.3])
        rates = [chance.uniform(0, 0.1) for _ in range(4)]
        actions = [self.crash, self.join, self.part, self.register_some]
        for _ in range(STEPS):
            draw = chance.random()
            for rate, action in zip(rates, actions, strict=True):
                if draw < rate:
                    action()
                    break
                draw -= rate
            else:
                self.move()
        self.heal()

    def join(self) -> None:
        if len(self.members) < 12:
            me = self.chance.choice([place for place in FAR_APART if place not in self.members])
            self.members[me] = self.kind(me, self.next_life)
            self.lives[me] = self.next_life
            self.next_life += 1
            self.side[me] = 0
            if self.chance.random() < 0.7:
                self.register_some()

    def crash(self) -> None:
        if len(self.members) > 1:
            del self.members[self.chance.choice(list(self.members))]

    def part(self) -> None:
        for me in self.members:
            self.side[me] = self.chance.randrange(2)

    def register_some(self) -> None:
        """Have some members learn who is there now."""
        for me in list(self.members):
            if self.chance.random() < 0.6:
                self.members[me].know(self.members)

    def move(self) -> None:
        if self.flights and self.chance.random() < 0.7:
            self.deliver(self.chance.randrange(len(self.flights)))
        else:
            self.tick(self.chance.choice(list(self.members)))

    def tick(self, me: int) -> None:
        self.members[me].tick()
        self.sent(me)

    def sent(self, me: int) -> None:
        for target, message in self.members[me].take_outbox():
            self.spreads += isinstance(message, Spread)
            self.flights.append(Flight(me, target, self.lives[me], message))

    def deliver(self, position: int) -> None:
        flight = self.flights.pop(position)
        message = flight.message
        member = self.members.get(flight.target)
        if isinstance(message, Request):
            self.answer(flight, message, member)
        elif member is not None:
            if isinstance(message, Notify):
                member.notified(message)
            elif self.lives[flight.target] == flight.life:
                if isinstance(message, Failed):
                    member.failed(message.number)
                else:
                    member.receive(message)
            self.sent(flight.target)

    def answer(self, flight: Flight, request: Request, member: Member | None) -> None:
        answer: Answer | None = None
        is_cut = self.side.get(flight.source) != self.side.get(flight.target)
        if member is not None and not is_cut and self.chance.random() >= self.suspicion:
            answer = member.answer(request)
            self.sent(flight.target)
        back = answer or Failed(request.number)
        self.flights.append(Flight(flight.target, flight.source, flight.life, back))

    def heal(self) -> None:
        self.suspicion = 0.0
        for me in self.members:
            self.side[me] = 0
        for member in self.members.values():
            member.know(self.members)
        for _ in range(ROUNDS_MAX):
            self.round()
            if self.is_whole():
                break
        else:
            raise Violation(f"not whole after {ROUNDS_MAX} rounds")
        for _ in range(FINGERS + 2):
            self.round()
        self.find()
        self.reach()

    def round(self) -> None:
        for me in list(self.members):
            self.tick(me)
        self.drain()

    def drain(self) -> None:
        while self.flights:
            self.deliver(self.chance.randrange(len(self.flights)))

    def is_whole(self) -> bool:
        places = sorted(self.members)
        if len(places) == 1:
            return True
        for me, member in self.members.items():
            near = member.neighbourhood
            if (near.predecessor, near.successors) != ideal(me, places, near.length):
                return False
        return True

    def find(self) -> None:
        """Every member finds the owner of a key."""
        places = sorted(self.members)
        key = self.chance.randrange(SIZE)
        owner = next((place for place in places if place >= key), places[0])
        for me, member in self.members.items():
            member.take_found()
            ticket = member.look_up(key)
            self.sent(me)
            self.drain()
            (found,) = member.take_found()
            if (found.ticket, found.owner) != (ticket, owner):
                raise Violation(f"{me} finds {found.owner} for {key}, which is {owner}'s")

    def reach(self) -> None:
        """A broadcast reaches all the others, once, and costs one message each."""
        for member in self.members.values():
            member.take_delivered()
        origin = self.chance.choice(list(self.members))
        self.spreads = 0
        self.members[origin].broadcast(b"news")
        self.sent(origin)
        self.drain()
        if self.spreads != len(self.members) - 1:
            raise Violation(f"{self.spreads} messages for {len(self.members)} members")
        counts = {me: len(member.take_delivered()) for me, member in self.members.items()}
        expected = {me: int(me != origin) for me in self.members}
        if counts != expected:
            raise Violation(f"a broadcast of {origin} came {counts} times")


def run(seed: int) -> None:
    """Run the schedule of a seed; raise Violation if a rule was broken."""
    chance = Random(seed)
    if chance.random() < 0.5:
        kind: Kind = Chord if chance.random() < 0.5 else Anchored
        Proof(chance, kind, chance.choice([2, 3, 4])).run()
    else:
        Wild(chance).run()

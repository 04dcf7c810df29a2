"""One member of the ring: its neighbourhood, fingers, look-ups and broadcasts as one pure machine.

The shell calls `tick` at intervals, sends what `take_outbox` gives, brings each answer to `receive`
or says that it has `failed`, has requests answered by `answer`, and takes what was found and
delivered. Same input in the same order, same output.
"""

from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import NamedTuple

from chordmq.cluster.ring.broadcast import Seen, children
from chordmq.cluster.ring.fingers import Fingers, nearer
from chordmq.cluster.ring.identifier import after, between, owned
from chordmq.cluster.ring.lookup import Lookup
from chordmq.cluster.ring.neighbourhood import LENGTH, Neighbourhood
from chordmq.cluster.ring.post import Post
from chordmq.codecs.peer.ring import (
    Answer,
    Ask,
    Message,
    Neighbours,
    Notify,
    Request,
    Route,
    Routed,
    Spread,
    Taken,
)
from chordmq.dataclass import dataclass


class Found(NamedTuple):
    """What came of a look-up; no owner if nobody could say."""

    ticket: int
    owner: int | None
    hops: int


@dataclass(frozen=True, slots=True)
class _Finger:
    """A look-up for entry k of the fingers."""

    k: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A look-up that somebody has asked for."""

    ticket: int


@dataclass(frozen=True, slots=True)
class _Repair:
    """A look-up for who takes over the arc of a dead member."""

    spread: Spread
    dead: int


_Reason = _Finger | _Wanted | _Repair


class Member:
    """A member, and all that it has under way."""

    def __init__(self, me: int, life: int, length: int = LENGTH) -> None:
        self.me = me
        self._post = Post(life)
        self.neighbourhood = Neighbourhood(me, self._post, length)
        self.fingers = Fingers(me)
        self._seen = Seen()
        self._sequences = count(life << 32)
        self._tickets = count()
        self._routes: dict[int, tuple[int, Lookup, _Reason]] = {}
        """Look-ups under way by the number of the last question, with whom it went to."""
        self._spreads: dict[int, tuple[int, Spread]] = {}
        self._found: list[Found] = []
        self._delivered: list[Spread] = []
        self.lookups = 0
        self.hops = 0

    # What the node around it asks for.

    def know(self, registered: Iterable[int]) -> None:
        """Take note of who is registered in the cluster."""
        self.neighbourhood.know(registered)
        self.fingers.keep(self.neighbourhood.registered)

    def tick(self) -> None:
        """Check the neighbours, and one finger."""
        self.neighbourhood.step()
        successors = self.neighbourhood.successors
        if self.neighbourhood.is_member and successors:
            k = self.fingers.next_to_fix(successors[0])
            if k is not None:
                self._look_up(self.fingers.place(k), _Finger(k))

    def look_up(self, key: int) -> int:
        """Begin to search the owner of a key; `take_found` gives it under the returned ticket."""
        ticket = next(self._tickets)
        self._look_up(key, _Wanted(ticket))
        return ticket

    def broadcast(self, payload: bytes) -> None:
        """Have every other member get a payload, once."""
        spread = Spread(0, self.me, next(self._sequences), self.me, payload)
        self._seen.is_new(spread.origin, spread.sequence)
        self._pass_on(spread)

    def take_outbox(self) -> list[tuple[int, Message]]:
        """Return what is to be sent, each with its addressee."""
        return self._post.take()

    def take_found(self) -> list[Found]:
        """Return the look-ups that have ended."""
        found, self._found = self._found, []
        return found

    def take_delivered(self) -> list[Spread]:
        """Return the broadcasts of others that have come."""
        delivered, self._delivered = self._delivered, []
        return delivered

    def known(self) -> list[int]:
        """Return the members that this one can reach at once, as far as it knows."""
        near = self.neighbourhood
        return sorted({*near.successors, *self.fingers.members()} - {self.me})

    # What other members send.

    def answer(self, request: Request) -> Answer | None:
        """Answer a request at once; None refuses it, for who is no member yet knows nothing."""
        if isinstance(request, Ask):
            return self.neighbourhood.answer(request)
        if not self.neighbourhood.is_member:
            return None
        if isinstance(request, Route):
            return self._route(request.number, request.key)
        if self._seen.is_new(request.origin, request.sequence):
            self._delivered.append(request)
            self._pass_on(request)
        return Taken(request.number)

    def notified(self, notify: Notify) -> None:
        """Hear that somebody may be the predecessor."""
        self.neighbourhood.rectify(notify)

    def receive(self, answer: Answer) -> None:
        """Take an answer."""
        if isinstance(answer, Neighbours):
            self.neighbourhood.receive(answer)
        elif isinstance(answer, Taken):
            self._spreads.pop(answer.number, None)
        elif answer.number in self._routes:
            _, lookup, reason = self._routes.pop(answer.number)
            lookup.receive(answer)
            self._go_on(lookup, reason)

    def failed(self, number: int) -> None:
        """Take note that a request will not be answered."""
        if number in self._routes:
            asked, lookup, reason = self._routes.pop(number)
            self._suspect(asked)
            self._go_on(lookup, reason)
        elif number in self._spreads:
            asked, spread = self._spreads.pop(number)
            self._suspect(asked)
            self._look_up(after(asked), _Repair(spread, asked))
        else:
            self.neighbourhood.failed(number)

    def _suspect(self, member: int) -> None:
        self.fingers.forget(member)
        self.neighbourhood.suspect(member)

    # How a key is found.

    def _route(self, number: int, key: int) -> Routed:
        near = self.neighbourhood
        if not near.successors or key == self.me:
            return Routed(number, self.me)
        if near.predecessor is not None and owned(near.predecessor, key, self.me):
            return Routed(number, self.me)
        live = [member for member in near.successors if member not in near.suspects]
        previous = self.me
        for member in live:
            if owned(previous, key, member):
                return Routed(number, member)
            previous = member
        known = self.known()
        trusted = [member for member in known if member not in near.suspects]
        return Routed(number, None, nearer(self.me, key, trusted) or nearer(self.me, key, known))

    def _look_up(self, key: int, reason: _Reason) -> None:
        self._go_on(Lookup(key, self._route(0, key)), reason)

    def _go_on(self, lookup: Lookup, reason: _Reason) -> None:
        member = lookup.next()
        if member is not None:
            number = self._post.ask(member, partial(_route_request, lookup.key))
            self._routes[number] = member, lookup, reason
            return
        self.lookups += 1
        self.hops += lookup.hops
        if isinstance(reason, _Wanted):
            self._found.append(Found(reason.ticket, lookup.owner, lookup.hops))
        elif isinstance(reason, _Finger):
            if lookup.owner is not None:
                self.fingers.fix(reason.k, lookup.owner)
        elif lookup.owner is not None and lookup.owner != self.me:
            self._take_over(reason, lookup.owner)

    # How all are reached.

    def _pass_on(self, spread: Spread) -> None:
        for member, limit in children(self.me, spread.limit, self.known()):
            self._send(member, limit, spread)

    def _send(self, member: int, limit: int, spread: Spread) -> None:
        number = self._post.ask(member, partial(_spread_request, limit, spread))
        self._spreads[number] = member, _spread_request(limit, spread, number)

    def _take_over(self, repair: _Repair, member: int) -> None:
        """Have the first live member behind a dead one see to its arc, if there is one in it."""
        if between(repair.dead, member, repair.spread.limit):
            self._send(member, repair.spread.limit, repair.spread)


def _route_request(key: int, number: int) -> Route:
    return Route(number, key)


def _spread_request(limit: int, spread: Spread, number: int) -> Spread:
    return Spread(number, spread.origin, spread.sequence, limit, spread.payload)

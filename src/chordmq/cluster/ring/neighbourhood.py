"""One member's place in the ring: Chord's join, stabilise and rectify as Zave corrected them.

A member knows its predecessor and the next few members clockwise. It never adopts a pointer that it
has not asked first, has one question under way at a time, and answers at once. When its successor
is dead, the list keeps its length with a padding place behind its end, where usually nobody is: so
it skips nobody. The proof (P. Zave, IEEE TSE 2017) assumes perfect failure detection, which no
network gives; therefore nothing but placement, routing and fan-out relies on the ring, and the
cluster's registry is its anchor: a registered member that should be the successor is asked as if
the successor had named it. With too few members for a ring of this kind, the registry is the ring.
"""

from collections.abc import Iterable
from enum import Enum

from chordmq.cluster.ring.identifier import after, between
from chordmq.cluster.ring.post import Post
from chordmq.codecs.peer.ring import Ask, Neighbours, Notify

LENGTH = 3
"""How many successors a member knows; the ring survives one failure less at a time."""

SUSPICION_STEPS = 4


class Purpose(Enum):
    """Why somebody was asked for its neighbours."""

    JOIN = "join"
    SUCCESSOR = "stabilise from successor"
    PREDECESSOR = "stabilise from predecessor"
    PING = "rectify"


class Neighbourhood:
    """The machine; `step` is called at intervals, and everything else when something has come."""

    def __init__(self, me: int, post: Post, length: int = LENGTH) -> None:
        self.me = me
        self.length = length
        self.is_member = False
        self.predecessor: int | None = None
        self.successors: tuple[int, ...] = ()
        self.registered: tuple[int, ...] = ()
        """The members that the cluster's registry names, in the order of their places."""
        self.suspects: dict[int, int] = {}
        """Those that did not answer when last asked, and for how many steps to remember it."""
        self._post = post
        self._open: dict[int, tuple[Purpose, int]] = {}
        self._candidate: int | None = None
        """Who takes the predecessor's place if that does not answer."""
        self._refusals = 0
        """How many could not help this one to join, one after the other."""
        self._passed_over = 0
        """How many did not answer when they were to be the successor, one after the other."""

    @property
    def is_small(self) -> bool:
        """Return whether the members are too few for Chord, so that the registry is the ring."""
        return len(self.registered) <= self.length + 1

    def know(self, registered: Iterable[int]) -> None:
        """Take note of who is registered."""
        self.registered = tuple(sorted(set(registered)))
        if self.me not in self.registered:
            self.is_member = False
        elif self.is_small or (self.is_member and len(self.successors) < self.length):
            self.begin(self._clockwise())

    def begin(self, others: tuple[int, ...]) -> None:
        """Be a member among these others, given clockwise."""
        self.is_member = True
        self._refusals = 0
        self.successors = others[: self.length]
        self.predecessor = others[-1] if others else None

    def step(self) -> None:
        """Join, or take one step of stabilisation, unless one is under way."""
        self.suspects = {one: left - 1 for one, left in self.suspects.items() if left > 1}
        if any(purpose is not Purpose.PING for purpose, _ in self._open.values()):
            return
        if not self.is_member:
            self._join()
        elif (nearer := self._anchor()) is not None:
            self._ask(nearer, Purpose.PREDECESSOR)
        elif self.successors:
            self._ask(self.successors[0], Purpose.SUCCESSOR)

    def answer(self, asked: Ask) -> Neighbours | None:
        """Return this member's neighbours, or None to refuse, for it is no member."""
        if not self.is_member:
            return None
        return Neighbours(asked.number, self.predecessor, self.successors)

    def receive(self, answer: Neighbours) -> None:
        """Take an answer; one to an older question says nothing."""
        purpose, asked = self._open.pop(answer.number, (None, 0))
        if purpose is None:
            return
        self.suspects.pop(asked, None)
        if purpose is Purpose.JOIN:
            self._joined(asked, answer)
        elif purpose is Purpose.SUCCESSOR and not self.is_small:
            self._heard_successor(asked, answer)
        elif purpose is Purpose.PREDECESSOR and not self.is_small:
            self._heard_nearer(asked, answer)

    def failed(self, number: int) -> None:
        """Take note that a question will not be answered: who was asked is dead, it seems."""
        purpose, asked = self._open.pop(number, (None, 0))
        if purpose is None:
            return
        self.suspect(asked)
        if purpose is Purpose.JOIN:
            self._refusals += 1
        if self.is_small or not self.is_member:
            return
        if purpose is Purpose.SUCCESSOR and asked == self.successors[0]:
            self.successors = (*self.successors[1:], after(self.successors[-1]))
            self._notify(self.successors[0])
        elif purpose is Purpose.PREDECESSOR:
            self._passed_over += 1
            self._notify(self.successors[0])
        elif purpose is Purpose.PING and asked == self.predecessor:
            self.predecessor, self._candidate = self._candidate, None

    def suspect(self, member: int) -> None:
        """Take a member for dead in routes for a while; it is a hint, no more."""
        self.suspects[member] = SUSPICION_STEPS

    def rectify(self, notified: Notify) -> None:
        """Take the sender for the predecessor if it is nearer, or if the predecessor is dead."""
        if not self.is_member or self.is_small or notified.member == self.predecessor:
            return
        if self.predecessor is None or between(self.predecessor, notified.member, self.me):
            self.predecessor = notified.member
            return
        self._candidate = notified.member
        if not any(purpose is Purpose.PING for purpose, _ in self._open.values()):
            self._ask(self.predecessor, Purpose.PING)

    def _join(self) -> None:
        """Ask the registered members, the one before this place first, then those before it.

        If none of them is a member either, the ring begins: with what the registry says.
        """
        if self.me not in self.registered:
            return
        others = self._clockwise()
        if self._refusals < len(others):
            self._ask(others[-1 - self._refusals], Purpose.JOIN)
        else:
            self.begin(others)

    def _joined(self, asked: int, answer: Neighbours) -> None:
        """Take the whole list of the one member before this place, and that member, in one step."""
        self._refusals = 0
        if self.is_member or not answer.successors:
            return
        head = answer.successors[0]
        if between(asked, self.me, head):
            self.is_member = True
            self.successors = answer.successors
            self.predecessor = asked
        elif between(asked, head, self.me):
            self._ask(head, Purpose.JOIN)

    def _heard_successor(self, asked: int, answer: Neighbours) -> None:
        self._adopt(asked, answer)
        nearer = answer.predecessor
        if nearer is not None and between(self.me, nearer, asked):
            self._ask(nearer, Purpose.PREDECESSOR)
        else:
            self._notify(asked)

    def _heard_nearer(self, asked: int, answer: Neighbours) -> None:
        self._adopt(asked, answer)
        self._notify(asked)

    def _adopt(self, head: int, answer: Neighbours) -> None:
        """Follow a member that has just shown to be alive, and those that follow it."""
        found = [head]
        for member in answer.successors:
            # Only while a ring grows out of the registry's few do lists lead back here.
            if member == self.me:
                break
            found.append(member)
        self.successors = tuple(found[: self.length])
        self._passed_over = 0

    def _anchor(self) -> int | None:
        """Return a registered member that should be the successor and is not.

        Who has just not answered is passed over for a while: it may be dead, and registered still,
        or about to join. Where no successor is registered any more, one after the other is tried.
        """
        others = self._clockwise()
        if self.is_small or not self.successors or not others:
            return None
        if not any(member in self.registered for member in self.successors):
            return others[self._passed_over % len(others)]
        is_skipped = between(self.me, others[0], self.successors[0])
        return others[0] if is_skipped and others[0] not in self.suspects else None

    def _clockwise(self) -> tuple[int, ...]:
        """Return the other registered members in the order in which they follow this one."""
        later = tuple(member for member in self.registered if member > self.me)
        return later + tuple(member for member in self.registered if member < self.me)

    def _ask(self, member: int, purpose: Purpose) -> None:
        self._open[self._post.ask(member, Ask)] = purpose, member

    def _notify(self, member: int) -> None:
        self._post.tell(member, Notify(self.me))

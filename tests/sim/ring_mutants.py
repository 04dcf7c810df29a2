"""Bugs planted in the ring; the simulation has to find each of them."""

from collections.abc import Callable
from random import Random

from chordmq.cluster.ring.identifier import between
from chordmq.cluster.ring.member import Member
from chordmq.cluster.ring.neighbourhood import Neighbourhood, Purpose
from chordmq.codecs.peer.ring import Ask, Neighbours, Notify, Routed, Spread
from tests.sim.ring import Anchored, Chord, Kind, Proof, Violation, Wild


class LetsListsShrink(Chord):
    """Drops a dead successor without padding the list."""

    def failed(self, number: int) -> None:
        purpose, _ = self._open.get(number, (None, 0))
        if purpose is not Purpose.SUCCESSOR or len(self.successors) == 1:
            super().failed(number)
            return
        self._open.pop(number)
        self.successors = self.successors[1:]
        self._notify(self.successors[0])


class JoinsAnywhere(Chord):
    """Joins behind whoever answers, though others may stand between."""

    def _joined(self, asked: int, answer: Neighbours) -> None:
        self.is_member = True
        self.successors = answer.successors
        self.predecessor = asked


class JoinsWithItsSuccessorOnly(Chord):
    """Takes the successor of the member before it, and nobody behind that."""

    def _joined(self, asked: int, answer: Neighbours) -> None:
        super()._joined(asked, answer)
        if self.successors:
            head = self.successors[0]
            self.successors = tuple(head + step for step in range(self.length))


class AnswersTooEarly(Anchored):
    """Answers before it has joined, with what it does not know."""

    def answer(self, asked: Ask) -> Neighbours | None:
        return Neighbours(asked.number, self.predecessor, self.successors or (self.me,))


class KeepsDeadPredecessors(Chord):
    """Never looks whether its predecessor is alive."""

    def rectify(self, notified: Notify) -> None:
        if self.predecessor is None or between(self.predecessor, notified.member, self.me):
            super().rectify(notified)


class WithoutAnchor(Neighbourhood):
    """Does not look into the registry."""

    def _anchor(self) -> int | None:
        return None


class WaitsForSomebodyToJoin(Neighbourhood):
    """Never begins a ring by itself."""

    def _join(self) -> None:
        self._refusals = 0
        super()._join()


class ForgetsTheSmall(Neighbourhood):
    """Takes a few members for a ring like every other."""

    @property
    def is_small(self) -> bool:
        return False


class SendsTwice(Member):
    """Passes broadcasts on to the whole ring, not to its arc."""

    def _send(self, member: int, limit: int, spread: Spread) -> None:
        super()._send(member, self.me, spread)


class FollowsStaleFingers(Member):
    """Takes the first member that it knows behind a key for its owner."""

    def _route(self, number: int, key: int) -> Routed:
        known = [member for member in self.known() if member >= key]
        return Routed(number, known[0]) if known else super()._route(number, key)


def neighbours(kind: Callable[..., Neighbourhood]) -> Callable[[int, int], Member]:
    """Return how to make members whose neighbourhoods are of this kind."""

    def make(me: int, life: int) -> Member:
        member = Member(me, life)
        member.neighbourhood = kind(me, member._post)
        return member

    return make


def proof(kind: Kind) -> Callable[[int], None]:
    """Return a run within the assumptions of the proof."""

    def run(seed: int) -> None:
        chance = Random(seed)
        Proof(chance, kind, chance.choice([2, 3, 4])).run()

    return run


def wild(kind: Callable[[int, int], Member]) -> Callable[[int], None]:
    """Return a run that assumes nothing."""

    def run(seed: int) -> None:
        try:
            Wild(Random(seed), kind).run()
        except IndexError as fault:
            raise Violation("a list is empty") from fault

    return run


MUTANTS: dict[str, Callable[[int], None]] = {
    **{
        kind.__name__: proof(kind)
        for kind in (
            LetsListsShrink, JoinsAnywhere, JoinsWithItsSuccessorOnly, AnswersTooEarly,
            KeepsDeadPredecessors,
        )
    },
    **{
        kind.__name__: wild(neighbours(kind))
        for kind in (WithoutAnchor, WaitsForSomebodyToJoin, ForgetsTheSmall)
    },
    **{kind.__name__: wild(kind) for kind in (SendsTwice, FollowsStaleFingers)},
}  # fmt: skip

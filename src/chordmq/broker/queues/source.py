"""How far a queue has come in one partition: what it holds of it, and what it is done with."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import takewhile

from chordmq.broker.cursors.shared_cursor import COUNT_MAX, Change, State
from chordmq.broker.partition import Partition


class Source:
    """A queue's cursor in one partition, in which other queues have messages as well.

    Offsets come in their order. All before `start` are done, or were never the queue's.
    """

    def __init__(self, partition: Partition, start: int, changes: tuple[Change, ...] = ()) -> None:
        self.partition = partition
        self.next = start
        """The first offset that the queue has not looked at."""
        self.is_behind = False
        """Whether messages lie in the log that the queue has not looked at."""
        self._order: deque[int] = deque()
        self._done: set[int] = set()
        self._tried: dict[int, int] = {}
        self._skipped: list[tuple[int, int]] = []
        """First and last offsets of what was taken as done without having been looked at."""
        self.kept = list(changes)
        """What was stored of offsets that are not looked at yet."""

    @property
    def start(self) -> int:
        """Return the offset before which nothing is left to do."""
        return self._order[0] if self._order else self.next

    @property
    def is_idle(self) -> bool:
        """Return whether the queue has nothing left in this partition."""
        return not self._order and not self.is_behind

    def take(self, offset: int) -> int | None:
        """Look at a message of the queue's; return its deliveries, or None if it is done."""
        self.next = offset + 1
        kept = self.kept
        while kept and kept[0].last < offset:
            kept.pop(0)
        self._order.append(offset)
        if not kept or offset < kept[0].first:
            return 0
        if kept[0].state is State.DONE:
            self.finish(offset)
            return None
        self._tried[offset] = kept[0].deliveries
        return kept[0].deliveries

    def knows(self, offsets: range) -> bool:
        """Return whether something was stored of any offset that is not looked at yet."""
        first, last = offsets[0], offsets[-1]
        return any(one.first <= last and one.last >= first for one in self.kept)

    def take_all(self, offsets: range) -> None:
        """Look at messages of the queue's that nothing was stored of."""
        kept = self.kept
        while kept and kept[0].last < offsets[0]:
            kept.pop(0)
        assert not kept or kept[0].first > offsets[-1]
        self._order.extend(offsets)
        self.next = offsets[-1] + 1

    def is_done(self, offset: int) -> bool:
        """Return whether an offset that is not looked at yet is stored as done."""
        return any(one.first <= offset <= one.last and one.state is State.DONE for one in self.kept)

    def tried(self, offset: int, deliveries: int) -> None:
        """Take note that a message was delivered."""
        self._tried[offset] = deliveries if deliveries < COUNT_MAX else COUNT_MAX

    def tried_all(self, offsets: range) -> None:
        """Take note that messages were delivered for the first time."""
        self._tried.update(dict.fromkeys(offsets, 1))

    def finish(self, offset: int) -> None:
        """Take note that a message is done."""
        self._tried.pop(offset, None)
        order, done = self._order, self._done
        if order[0] != offset:
            done.add(offset)
            return
        order.popleft()
        while order and order[0] in done:
            done.remove(order.popleft())

    def finish_all(self, offsets: range) -> None:
        """Take note that messages are done which were looked at together."""
        pop = self._tried.pop
        for offset in offsets:
            pop(offset, None)
        order, done = self._order, self._done
        if order[0] != offsets[0]:
            done.update(offsets)
            return
        if offsets.step == 1:  # nothing lies between them
            for _ in offsets:
                order.popleft()
        else:
            done.update(offsets)
        over = list(takewhile(done.__contains__, order))
        done.difference_update(over)
        for _ in over:
            order.popleft()

    def skip_to(self, offset: int) -> None:
        """Take all that was not looked at as done."""
        if offset > self.next:
            self._skipped.append((self.next, offset - 1))
            self.next = offset
        self.is_behind = False
        self.kept.clear()

    def stored(self) -> tuple[int, tuple[Change, ...]]:
        """Return the start, and what differs after it from not having been tried."""
        start = self.start
        self._skipped = [one for one in self._skipped if one[1] >= start]
        return start, (*self._changes(), *self.kept)

    def _changes(self) -> Iterator[Change]:
        """Yield runs of the queue's offsets; others that lie between do not matter."""
        done, tried = self._done, self._tried
        offsets: Iterable[int] = self._order
        if self._skipped:  # its ends stand for all between them
            ends = {offset for skipped in self._skipped for offset in skipped}
            offsets, done = merge(self._order, sorted(ends)), done | ends
        left = len(done) + len(tried)
        first = last = 0
        noted = None  # how often the run was delivered; 0 for what is done
        for offset in offsets:
            if not left:
                break
            found = 0 if offset in done else tried.get(offset) or None
            if found != noted:
                if noted is not None:
                    yield _change(first, last, noted)
                first, noted = offset, found
            last = offset
            left -= found is not None
        if noted is not None:
            yield _change(first, last, noted)


def _change(first: int, last: int, deliveries: int) -> Change:
    return Change(first, last, State.AVAILABLE if deliveries else State.DONE, deliveries)

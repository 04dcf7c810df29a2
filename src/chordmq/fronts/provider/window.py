"""What a consumer has and has not acknowledged: how much more it may get, and what comes again."""


class Window:
    """Messages under way to one consumer; pure, told the time.

    All have the same time to be acknowledged, so that the oldest is always the first to be late.
    """

    def __init__(self, credit: int, timeout_s: float) -> None:
        self.credit = credit
        self._timeout_s = timeout_s
        self._deadlines: dict[tuple[int, int], float] = {}
        """When each place must be acknowledged, in the order in which they were sent."""

    def __len__(self) -> int:
        return len(self._deadlines)

    @property
    def room(self) -> int:
        """Return how many messages may be sent now."""
        return self.credit - len(self._deadlines)

    @property
    def deadline_s(self) -> float | None:
        """Return when the oldest message is late."""
        return next(iter(self._deadlines.values()), None)

    def sent(self, places: list[tuple[int, int]], now_s: float) -> None:
        """Take note of messages that the consumer has now."""
        deadlines, deadline_s = self._deadlines, now_s + self._timeout_s
        for place in places:
            deadlines.pop(place, None)  # what is sent again moves to the end
            deadlines[place] = deadline_s

    def acknowledged(self, partition: int, first: int, last: int) -> list[int]:
        """Return which offsets of a range were under way, in order; they are no more."""
        deadlines = self._deadlines
        if first == last:
            return [first] if deadlines.pop((partition, first), None) is not None else []
        if last - first <= len(deadlines):
            found = [
                offset for offset in range(first, last + 1) if (partition, offset) in deadlines
            ]
        else:
            found = sorted(
                offset
                for index, offset in deadlines
                if index == partition and first <= offset <= last
            )
        for offset in found:
            del deadlines[partition, offset]
        return found

    def late(self, now_s: float) -> list[tuple[int, int]]:
        """Return the places whose time is over, oldest first; they are under way no more."""
        found = []
        for place, deadline_s in self._deadlines.items():
            if deadline_s > now_s:
                break
            found.append(place)
        for place in found:
            del self._deadlines[place]
        return found

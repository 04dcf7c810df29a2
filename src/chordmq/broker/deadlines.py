"""Many deadlines that move often and pass seldom, such as the sessions of idle members."""

import heapq


class Deadlines:
    """Deadlines by name; pushing one further away costs two dictionary accesses and no heap work.

    The heap holds, for each name, one entry that is never later than the deadline. An entry that
    comes up early is put back where the deadline is by then.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._armed: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def set(self, name: str, at_ms: int) -> None:
        """Give the name a deadline in the place of the one it has."""
        self._at[name] = at_ms
        armed_ms = self._armed.get(name)
        if armed_ms is None or at_ms < armed_ms:
            self._arm(name, at_ms)

    def discard(self, name: str) -> None:
        """Forget the name's deadline; its heap entry falls out by itself."""
        self._at.pop(name, None)
        self._armed.pop(name, None)

    def due(self, now_ms: int) -> list[str]:
        """Remove and return the names whose deadline has come."""
        names = []
        while self._heap and self._heap[0][0] <= now_ms:
            armed_ms, name = heapq.heappop(self._heap)
            if self._armed.get(name) != armed_ms:
                continue  # discarded, or armed again for an earlier time
            if self._at[name] > now_ms:
                self._arm(name, self._at[name])
            else:
                self.discard(name)
                names.append(name)
        return names

    def next_ms(self) -> int | None:
        """Return a time before which nothing is due."""
        return self._heap[0][0] if self._heap else None

    def _arm(self, name: str, at_ms: int) -> None:
        self._armed[name] = at_ms
        heapq.heappush(self._heap, (at_ms, name))

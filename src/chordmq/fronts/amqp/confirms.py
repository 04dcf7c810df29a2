"""Publisher confirms of one channel: said in the order of publication, many at once."""

from collections import deque

from chordmq.codecs.amqp.frames import ack_frame, nack_frame


class Group:
    """Publications of one read, which are confirmed together."""

    __slots__ = ("failed", "last", "parts")

    def __init__(self) -> None:
        self.last = 0
        self.parts = 1
        """Appends that are under way, and one while the read is not over."""
        self.failed: list[int] = []


class Confirms:
    """Numbers publications and says which of them are safe."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._number = 0
        self._confirmed = 0
        self._groups: deque[Group] = deque()
        self._open: Group | None = None

    @property
    def is_open(self) -> bool:
        """Return whether publications wait for their confirmation."""
        return bool(self._groups)

    def next(self, count: int = 1) -> tuple[Group, int]:
        """Return the group of new publications, and the number of the last one."""
        group = self._open
        if group is None:
            group = self._open = Group()
            self._groups.append(group)
        self._number += count
        group.last = self._number
        return group, self._number

    def end_read(self) -> bytes:
        """Let the next publication begin a new group; return what can be said at once."""
        group, self._open = self._open, None
        return b"" if group is None else self.done(group)

    def done(self, group: Group) -> bytes:
        """Take note that a part of a group is settled; return what can be said."""
        group.parts -= 1
        out = b""
        last = 0
        while self._groups and not self._groups[0].parts:
            first = self._groups.popleft()
            for number in first.failed:
                out += nack_frame(self._channel, number)
            if len(first.failed) < first.last - self._confirmed:
                last = first.last
            self._confirmed_to(first.last)
        if last:
            out += ack_frame(self._channel, last, True)
        return out

    def _confirmed_to(self, number: int) -> None:
        self._confirmed = number

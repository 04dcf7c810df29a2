"""What a share consumer fetches, kept between its requests (KIP-932)."""

from collections.abc import Iterable
from dataclasses import field

from chordmq.broker.cursors.cursors import Cursors
from chordmq.dataclass import dataclass
from chordmq.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

FIRST_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
SESSIONS_MAX = 10_000

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""


@dataclass(slots=True, eq=False)
class ShareSession:
    """The partitions that one member reads over one connection."""

    group: str
    member: str
    connection: object
    """Whose end is the end of the session."""
    epoch: int = 1
    places: dict[Place, None] = field(default_factory=dict)
    """In the order in which they are served; who was served goes to the end."""

    def put(self, places: Iterable[Place]) -> None:
        """Add partitions."""
        self.places.update(dict.fromkeys(places))

    def forget(self, places: Iterable[Place]) -> None:
        """Remove partitions."""
        for place in places:
            self.places.pop(place, None)

    def served(self, place: Place) -> None:
        """Let the others come first the next time, so that no partition starves."""
        del self.places[place]
        self.places[place] = None


class ShareSessions:
    """The sessions of all share consumers of a listener."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[int, list[ShareSession]] = {}

    def enter(self, group: str, member: str, epoch: int, connection: object) -> ShareSession:
        """Return the session that a request belongs to; epoch 0 begins a new one."""
        if not group or not member:
            raise InvalidRequest("A share consumer names its group and itself.")
        if epoch == FIRST_EPOCH:
            return self._begin(ShareSession(group, member, connection))
        session = self._sessions.get((group, member))
        if session is None or session.connection is not connection:
            raise ShareSessionNotFound(f"{member} has no share session here")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"the session is at {session.epoch}, not {epoch}")
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def _begin(self, session: ShareSession) -> ShareSession:
        key = session.group, session.member
        if key not in self._sessions and len(self._sessions) >= SESSIONS_MAX:
            raise ShareSessionLimitReached(f"there are {SESSIONS_MAX} share sessions")
        self._drop(key)
        self._sessions[key] = session
        self._by_connection.setdefault(id(session.connection), []).append(session)
        return session

    def end(self, session: ShareSession, cursors: Cursors) -> None:
        """Close a session; what its consumer still holds goes to others."""
        key = session.group, session.member
        if self._sessions.get(key) is session:
            self._drop(key)
            cursors.leave(session.group, session.member)

    def _drop(self, key: tuple[str, str]) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            of_connection = self._by_connection.get(id(session.connection), [])
            if session in of_connection:
                of_connection.remove(session)

    def disconnected(self, connection: object, cursors: Cursors) -> None:
        """Close the sessions of a connection that has ended."""
        for session in self._by_connection.pop(id(connection), ()):
            self.end(session, cursors)

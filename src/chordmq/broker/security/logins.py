"""The logins that open connections live by; each ends when what has proved it is taken back."""

from collections.abc import Callable
from typing import NamedTuple

from chordmq.broker.security.principal import Login
from chordmq.broker.security.users import Users

TAKEN_BACK = "the password or token of this login is not valid any more; log in again"

End = Callable[[str], None]


class _Held(NamedTuple):
    login: Login
    end: End


class Logins:
    """Who is connected on which proof, whatever the protocol.

    A changed password, a revoked token and a deleted user end the connections that they had let in.
    What others vouch for (a certificate, a directory, an issuer) is theirs to take back.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._held: dict[str, dict[object, _Held]] = {}
        self._names: dict[object, str] = {}
        users.watchers.append(self._look_again)

    def __len__(self) -> int:
        return len(self._names)

    def hold(self, holder: object, login: Login, end: End) -> None:
        """Have `end` called with the reason as soon as the login is not good any more.

        A later login of the same holder takes the place of the one before.
        """
        self.release(holder)
        if login.proof is None:
            return
        if not self._users.vouches_for(login):  # it was taken back while the client proved it
            end(TAKEN_BACK)
            return
        name = login.principal.name
        self._names[holder] = name
        self._held.setdefault(name, {})[holder] = _Held(login, end)

    def release(self, holder: object) -> None:
        """Take note that a connection is over, or never was let in."""
        name = self._names.pop(holder, None)
        if name is not None:
            held = self._held[name]
            del held[holder]
            if not held:
                del self._held[name]

    def _look_again(self, name: str) -> None:
        for holder, held in list(self._held.get(name, {}).items()):
            if not self._users.vouches_for(held.login):
                self.release(holder)
                held.end(TAKEN_BACK)

"""The outgoing messages of one member of the ring, free of I/O."""

from collections.abc import Callable
from itertools import count

from chordmq.codecs.peer.ring import Message, Request

NUMBERS_PER_LIFE = 1 << 32


class Post:
    """Numbers requests and holds messages until they are taken to be sent.

    The numbers of one life of a member are never those of another, so that a late answer to what
    an earlier life has asked is recognised.
    """

    def __init__(self, life: int) -> None:
        self._numbers = count(life * NUMBERS_PER_LIFE)
        self._outbox: list[tuple[int, Message]] = []

    def ask(self, to: int, request: Callable[[int], Request]) -> int:
        """Send a request and return its number."""
        number = next(self._numbers)
        self._outbox.append((to, request(number)))
        return number

    def tell(self, to: int, message: Message) -> None:
        """Send what is not answered."""
        self._outbox.append((to, message))

    def take(self) -> list[tuple[int, Message]]:
        """Return what is to be sent, each with its addressee."""
        outbox, self._outbox = self._outbox, []
        return outbox

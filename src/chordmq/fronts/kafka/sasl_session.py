"""Where a connection stands with its login: a table of states, free of input and output."""

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

from chordmq.errors import IllegalSaslState

if TYPE_CHECKING:
    from chordmq.broker.security.sasl import Exchange

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36


class State(Enum):
    """How far a connection has come."""

    NEW = auto()
    """Nobody in particular; only a login is answered."""
    CHOSEN = auto()
    """A mechanism is agreed upon; its messages come inside SaslAuthenticate."""
    CHOSEN_BARE = auto()
    """As CHOSEN, but the messages come bare, without a request around them (handshake 0)."""
    OPEN = auto()
    """Everything is answered; another login may follow."""
    OPEN_CHOSEN = auto()
    """A client that is known proves itself again."""
    OVER = auto()
    """A login failed; nothing is answered any more."""


class Event(Enum):
    """What moves a connection on."""

    HANDSHAKE = auto()
    HANDSHAKE_BARE = auto()
    PROVED = auto()
    REFUSED = auto()


NEXT: dict[tuple[State, Event], State] = {
    (State.NEW, Event.HANDSHAKE): State.CHOSEN,
    (State.NEW, Event.HANDSHAKE_BARE): State.CHOSEN_BARE,
    (State.NEW, Event.REFUSED): State.OVER,
    (State.CHOSEN, Event.PROVED): State.OPEN,
    (State.CHOSEN, Event.REFUSED): State.OVER,
    (State.CHOSEN_BARE, Event.PROVED): State.OPEN,
    (State.CHOSEN_BARE, Event.REFUSED): State.OVER,
    (State.OPEN, Event.HANDSHAKE): State.OPEN_CHOSEN,
    (State.OPEN, Event.REFUSED): State.OVER,
    (State.OPEN_CHOSEN, Event.PROVED): State.OPEN,
    (State.OPEN_CHOSEN, Event.REFUSED): State.OVER,
}

ANSWERED: dict[State, frozenset[int] | None] = {
    State.NEW: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
    State.CHOSEN: frozenset({SASL_AUTHENTICATE}),
    State.CHOSEN_BARE: frozenset(),
    State.OPEN: None,
    State.OPEN_CHOSEN: frozenset({SASL_AUTHENTICATE}),
    State.OVER: frozenset(),
}
"""The requests that each state answers; None for all."""


class SaslSession:
    """The login of one connection."""

    __slots__ = ("_expires_s", "exchange", "is_again", "mechanism", "state")

    def __init__(self, *, is_open: bool) -> None:
        self.state = State.OPEN if is_open else State.NEW
        self.mechanism = ""
        self.is_again = False
        """Whether the login under way is not the first: it must be by the same user."""
        self.exchange: Exchange | None = None
        self._expires_s = math.inf

    def answers(self, api_key: int, now_s: float) -> bool:
        """Return whether a request is answered; a session that has ended takes only a login."""
        if self.state is State.OPEN:
            return now_s < self._expires_s or api_key == SASL_HANDSHAKE
        answered = ANSWERED[self.state]
        return answered is None or api_key in answered

    def choose(self, mechanism: str, exchange: "Exchange", *, is_bare: bool) -> None:
        """Begin an exchange; a later login must use the mechanism of the first."""
        if self.mechanism not in ("", mechanism):
            self.refuse()
            raise IllegalSaslState("another login must use the mechanism of the first")
        self._move(Event.HANDSHAKE_BARE if is_bare else Event.HANDSHAKE)
        self.is_again = self.mechanism != ""
        self.mechanism = mechanism
        self.exchange = exchange

    def prove(self, expires_s: float) -> None:
        """End an exchange well; it holds until `expires_s` by the monotonic clock."""
        self._move(Event.PROVED)
        self._expires_s = expires_s
        self.exchange = None

    def refuse(self) -> None:
        """End an exchange badly."""
        self._move(Event.REFUSED)
        self.exchange = None

    def _move(self, event: Event) -> None:
        try:
            self.state = NEXT[self.state, event]
        except KeyError:
            raise IllegalSaslState(
                f"{event.name.lower()} does not follow {self.state.name.lower()}"
            ) from None

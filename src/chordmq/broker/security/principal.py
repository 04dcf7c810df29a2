"""Who asks: the identity that a connection has proved."""

from dataclasses import field

from chordmq.broker.security.accounts import Credential, TokenRow
from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, with the groups that an authentication back end vouches for."""

    name: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Login:
    """A proved identity, and when the proof ends by the wall clock; None if it does not."""

    principal: Principal
    expires_ms: int | None = None
    proof: Credential | TokenRow | None = field(default=None, repr=False)
    """What this node keeps that has proved it; None if somebody else vouches for it."""


ANONYMOUS = Principal("ANONYMOUS")
"""Somebody who did not have to prove who they are."""

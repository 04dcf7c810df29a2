"""Who asks: the identity that a connection has proved."""

from dataclasses import dataclass


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


ANONYMOUS = Principal("ANONYMOUS")
"""Somebody who did not have to prove who they are."""

"""Who asks: the identity that a connection has proved."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, with the groups that an authentication back end vouches for."""

    name: str
    groups: frozenset[str] = frozenset()


ANONYMOUS = Principal("ANONYMOUS")
"""Somebody who did not have to prove who they are."""

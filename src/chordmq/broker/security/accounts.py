"""Users, what proves that they are who they say, and their tokens, as they are kept.

Nothing kept can be turned back into a password or a token: credentials are salted and derived as in
RFC 5802, tokens are kept as their SHA-256.
"""

from dataclasses import field

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept instead of a password (RFC 5802); prints without its keys."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user; credentials by mechanism."""

    name: str
    is_admin: bool = False
    credentials: dict[str, Credential] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What is kept of a token: never the token itself."""

    digest: bytes = field(repr=False)
    id: str
    user: str
    label: str
    created_ms: int
    expires_ms: int | None
    """When the token ends; None for one that only a revocation ends."""

"""Users, what proves that they are who they say, and the node's own secret, as rows."""

import secrets
import sqlite3
from dataclasses import dataclass, field

from chordmq.storage.metadata.database import Database

SECRET_SIZE = 32

# No row can be turned back into a password or a token: credentials are salted and derived as in
# RFC 5802, tokens are kept as their SHA-256.
_STEPS = (
    """
    CREATE TABLE users (
        name TEXT PRIMARY KEY, is_admin INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE credentials (
        user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        mechanism TEXT NOT NULL, iterations INTEGER NOT NULL,
        salt BLOB NOT NULL, stored_key BLOB NOT NULL, server_key BLOB NOT NULL,
        PRIMARY KEY (user, mechanism)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tokens (
        digest BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        label TEXT NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE access_secret (
        only INTEGER PRIMARY KEY CHECK (only = 1), value BLOB NOT NULL
    ) STRICT
    """,
)


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept instead of a password (RFC 5802); prints without its keys."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user as the database knows it; credentials by mechanism."""

    name: str
    is_admin: bool = False
    credentials: dict[str, Credential] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as the database knows it: never the token itself."""

    digest: bytes = field(repr=False)
    id: str
    user: str
    label: str
    created_ms: int
    expires_ms: int | None
    """When the token ends; None for one that only a revocation ends."""


class AccessTable:
    """The durable list of users and tokens; each change is on disk when its call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("access", _STEPS)
        self.secret = database.run_now(_secret)

    def users(self) -> list[UserRow]:
        """Return every user, blocking; for the start."""
        return self._database.run_now(_users)

    def tokens(self) -> list[TokenRow]:
        """Return every token, blocking; for the start."""
        return self._database.run_now(
            lambda connection: [
                TokenRow(*row)
                for row in connection.execute(
                    "SELECT digest, id, user, label, created_ms, expires_ms FROM tokens"
                )
            ]
        )

    async def save(self, user: UserRow) -> None:
        """Add a user, or replace all that is known of one; tokens stay."""
        await self._database.run(lambda connection: _save(connection, user))

    async def remove(self, name: str) -> None:
        """Delete a user with credentials and tokens."""
        await self._run("DELETE FROM users WHERE name = ?", name)

    async def add_token(self, token: TokenRow) -> None:
        """Add a token."""
        row = (token.digest, token.id, token.user, token.label, token.created_ms, token.expires_ms)
        await self._run("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", *row)

    async def remove_token(self, token_id: str) -> None:
        """Delete a token."""
        await self._run("DELETE FROM tokens WHERE id = ?", token_id)

    async def _run(self, statement: str, *values: object) -> None:
        await self._database.run(lambda connection: connection.execute(statement, values))


def _secret(connection: sqlite3.Connection) -> bytes:
    made = secrets.token_bytes(SECRET_SIZE)
    connection.execute("INSERT OR IGNORE INTO access_secret VALUES (1, ?)", (made,))
    return bytes(connection.execute("SELECT value FROM access_secret").fetchone()[0])


def _users(connection: sqlite3.Connection) -> list[UserRow]:
    rows = connection.execute("SELECT name, is_admin FROM users ORDER BY name")
    users = {name: UserRow(name, bool(is_admin)) for name, is_admin in rows}
    for user, mechanism, *values in connection.execute(
        "SELECT user, mechanism, iterations, salt, stored_key, server_key FROM credentials"
    ):
        users[user].credentials[mechanism] = Credential(*values)
    return list(users.values())


def _save(connection: sqlite3.Connection, user: UserRow) -> None:
    connection.execute(
        "INSERT INTO users VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET is_admin = excluded.is_admin",
        (user.name, user.is_admin),
    )
    connection.execute("DELETE FROM credentials WHERE user = ?", (user.name,))
    connection.executemany(
        "INSERT INTO credentials VALUES (?, ?, ?, ?, ?, ?)",
        [
            (user.name, mechanism, one.iterations, one.salt, one.stored_key, one.server_key)
            for mechanism, one in user.credentials.items()
        ],
    )

"""ACLs, roles with their members, and quotas, as rows."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chordmq.storage.metadata.database import Database

_STEPS = (
    """
    CREATE TABLE acls (
        kind TEXT NOT NULL, name TEXT NOT NULL, match TEXT NOT NULL, principal TEXT NOT NULL,
        host TEXT NOT NULL, operation TEXT NOT NULL, effect TEXT NOT NULL,
        PRIMARY KEY (kind, name, match, principal, host, operation, effect)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE roles (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE role_permissions (
        role TEXT NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
        kind TEXT NOT NULL, name TEXT NOT NULL, match TEXT NOT NULL, operation TEXT NOT NULL,
        PRIMARY KEY (role, kind, name, match, operation)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE role_members (
        role TEXT NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
        principal TEXT NOT NULL, PRIMARY KEY (role, principal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE quotas (
        user TEXT NOT NULL, client TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
        PRIMARY KEY (user, client, name)
    ) STRICT, WITHOUT ROWID
    """,
)


class AclRow(NamedTuple):
    """An ACL as the database knows it."""

    kind: str
    name: str
    match: str
    principal: str
    host: str
    operation: str
    effect: str


class PermissionRow(NamedTuple):
    """One permission of a role."""

    kind: str
    name: str
    match: str
    operation: str


class RoleRow(NamedTuple):
    """A role with what it allows and to whom."""

    name: str
    permissions: tuple[PermissionRow, ...] = ()
    members: frozenset[str] = frozenset()


class QuotaRow(NamedTuple):
    """The limits of one user, one client id, or both."""

    user: str
    client: str
    limits: Mapping[str, float]


class PermissionTable:
    """The durable ACLs, roles and quotas; each change is on disk when its call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("permissions", _STEPS)

    def acls(self) -> list[AclRow]:
        """Return every ACL, blocking; for the start."""
        query = "SELECT kind, name, match, principal, host, operation, effect FROM acls"
        return self._database.run_now(
            lambda connection: [AclRow(*row) for row in connection.execute(query)]
        )

    def roles(self) -> list[RoleRow]:
        """Return every role, blocking; for the start."""
        return self._database.run_now(_roles)

    def quotas(self) -> list[QuotaRow]:
        """Return every quota, blocking; for the start."""
        return self._database.run_now(_quotas)

    async def change_acls(self, *, add: Iterable[AclRow], remove: Iterable[AclRow]) -> None:
        """Remove and add ACLs in one step."""
        removed, added = list(remove), list(add)

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "DELETE FROM acls WHERE (kind, name, match, principal, host, operation, effect) "
                "= (?, ?, ?, ?, ?, ?, ?)",
                removed,
            )
            connection.executemany("INSERT OR IGNORE INTO acls VALUES (?, ?, ?, ?, ?, ?, ?)", added)

        await self._database.run(work)

    async def save_role(self, role: RoleRow) -> None:
        """Add a role, or replace what was stored of it."""
        await self._database.run(lambda connection: _save_role(connection, role))

    async def remove_role(self, name: str) -> None:
        """Forget a role and its members."""
        await self._database.run(
            lambda connection: connection.execute("DELETE FROM roles WHERE name = ?", (name,))
        )

    async def save_quotas(self, rows: Iterable[QuotaRow]) -> None:
        """Replace the limits of these users and client ids in one step; no limits remove a row."""
        saved = list(rows)

        def work(connection: sqlite3.Connection) -> None:
            for row in saved:
                connection.execute(
                    "DELETE FROM quotas WHERE user = ? AND client = ?", (row.user, row.client)
                )
                connection.executemany(
                    "INSERT INTO quotas VALUES (?, ?, ?, ?)",
                    [(row.user, row.client, name, value) for name, value in row.limits.items()],
                )

        await self._database.run(work)


def _roles(connection: sqlite3.Connection) -> list[RoleRow]:
    names = connection.execute("SELECT name FROM roles ORDER BY name").fetchall()
    return [_role(connection, name) for (name,) in names]


def _role(connection: sqlite3.Connection, name: str) -> RoleRow:
    permissions = connection.execute(
        "SELECT kind, name, match, operation FROM role_permissions WHERE role = ?", (name,)
    )
    members = connection.execute("SELECT principal FROM role_members WHERE role = ?", (name,))
    return RoleRow(
        name,
        tuple(PermissionRow(*row) for row in permissions.fetchall()),
        frozenset(principal for (principal,) in members),
    )


def _save_role(connection: sqlite3.Connection, role: RoleRow) -> None:
    connection.execute("DELETE FROM roles WHERE name = ?", (role.name,))
    connection.execute("INSERT INTO roles VALUES (?)", (role.name,))
    connection.executemany(
        "INSERT INTO role_permissions VALUES (?, ?, ?, ?, ?)",
        [(role.name, *permission) for permission in role.permissions],
    )
    connection.executemany(
        "INSERT INTO role_members VALUES (?, ?)", [(role.name, one) for one in role.members]
    )


def _quotas(connection: sqlite3.Connection) -> list[QuotaRow]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for user, client, name, value in connection.execute(
        "SELECT user, client, name, value FROM quotas"
    ):
        found.setdefault((user, client), {})[name] = value
    return [QuotaRow(user, client, limits) for (user, client), limits in found.items()]

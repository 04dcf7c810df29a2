"""Reads the tables where versions up to 0.1 kept topics, users and permissions; drops them."""

import sqlite3
from typing import Any

TABLES = {
    "identity": "SELECT cluster_id, next_producer_id FROM identity",
    "topics": "SELECT id, name, partitions FROM topics",
    "topic_settings": "SELECT topic, name, value FROM topic_settings",
    "removals": "SELECT id, name, partitions FROM removals",
    "node_settings": "SELECT name, value FROM node_settings",
    "group_settings": "SELECT group_id, name, value FROM group_settings",
    "users": "SELECT name, is_admin FROM users",
    "credentials": "SELECT user, mechanism, iterations, salt, stored_key, server_key "
    "FROM credentials",
    "tokens": "SELECT digest, id, user, label, created_ms, expires_ms FROM tokens",
    "access_secret": "SELECT value FROM access_secret",
    "acls": "SELECT kind, name, match, principal, host, operation, effect FROM acls",
    "roles": "SELECT name FROM roles",
    "role_permissions": "SELECT role, kind, name, match, operation FROM role_permissions",
    "role_members": "SELECT role, principal FROM role_members",
    "quotas": "SELECT user, client, name, value FROM quotas",
}
_COMPONENTS = ("identity", "topics", "group_settings", "access", "permissions")


def take(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows by table, and drop the tables; nothing if there are none."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    there = {name for (name,) in found} & set(TABLES)
    if not there:
        return {}
    rows = {
        table: connection.execute(query).fetchall() if table in there else []
        for table, query in TABLES.items()
    }
    # Those that refer to others go first.
    for table in reversed(TABLES):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.executemany(
        "DELETE FROM schema_versions WHERE component = ?", [(one,) for one in _COMPONENTS]
    )
    return rows

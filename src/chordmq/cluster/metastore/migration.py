"""Takes what versions up to 0.1 kept in tables of their own into the store of a node alone."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from chordmq.cluster.metastore.store import Put
from chordmq.cluster.state import (
    CLUSTER,
    DEFAULTS,
    GROUPS,
    PRODUCER_IDS,
    QUOTAS,
    ROLES,
    SECRET,
    TOKENS,
    USERS,
    ClusterIdentity,
    ProducerIds,
    Secret,
    Settings,
    TopicState,
    acl_key,
    encode,
    named_key,
    topic_key,
)
from chordmq.storage.metadata import entries, held, older
from chordmq.storage.metadata.database import Database

Rows = dict[str, list[tuple[Any, ...]]]


def migrate(database: Database) -> None:
    """Move what is in older tables; a crash leaves it either there or here."""
    held.prepare(database)
    database.run_now(_migrate)


def _migrate(connection: sqlite3.Connection) -> None:
    rows = older.take(connection)
    if not rows:
        return
    revision = entries.revision(connection) + 1
    puts = [*_cluster(rows), *_topics(rows), *_users(rows), *_permissions(rows)]
    for put in puts:
        entries.write(connection, entries.EntryRow(put.key, put.value, revision, revision, 0))
    entries.set_revision(connection, revision)
    for topic, name, partitions in [*rows["topics"], *rows["removals"]]:
        held.write(connection, [held.HeldRow(topic, name, index) for index in range(partitions)])


def _cluster(rows: Rows) -> Iterator[Put]:
    for cluster_id, next_producer_id in rows["identity"]:
        yield Put(CLUSTER, encode(ClusterIdentity(id=cluster_id)))
        yield Put(PRODUCER_IDS, encode(ProducerIds(next=next_producer_id, by=0)))
    for (value,) in rows["access_secret"]:
        yield Put(SECRET, encode(Secret(value=value)))
    if rows["node_settings"]:
        yield Put(DEFAULTS, encode(Settings(settings=dict(rows["node_settings"]))))


def _topics(rows: Rows) -> Iterator[Put]:
    settings = _by_first(rows["topic_settings"])
    for topic, name, partitions in rows["topics"]:
        state = TopicState(id=topic.hex(), partitions=partitions, settings=dict(settings[topic]))
        yield Put(topic_key(name), encode(state))
    for group, texts in _by_first(rows["group_settings"]).items():
        yield Put(named_key(GROUPS, group), encode(Settings(settings=dict(texts))))


def _users(rows: Rows) -> Iterator[Put]:
    credentials = _by_first(rows["credentials"])
    for name, is_admin in rows["users"]:
        proofs = {
            mechanism: _named(("iterations", "salt", "stored_key", "server_key"), rest)
            for mechanism, *rest in credentials[name]
        }
        user = {"name": name, "is_admin": bool(is_admin), "credentials": proofs}
        yield Put(named_key(USERS, name), encode(user))
    names = ("digest", "id", "user", "label", "created_ms", "expires_ms")
    for row in rows["tokens"]:
        yield Put(named_key(TOKENS, row[1]), encode(_named(names, row)))


def _permissions(rows: Rows) -> Iterator[Put]:
    names = ("kind", "name", "match", "principal", "host", "operation", "effect")
    for row in rows["acls"]:
        yield Put(acl_key(*row), encode(_named(names, row)))
    allowed, members = _by_first(rows["role_permissions"]), _by_first(rows["role_members"])
    for (name,) in rows["roles"]:
        permissions = [_named(("kind", "name", "match", "operation"), row) for row in allowed[name]]
        role = {
            "name": name,
            "permissions": permissions,
            "members": [member for (member,) in members[name]],
        }
        yield Put(named_key(ROLES, name), encode(role))
    limits: dict[tuple[str, str], dict[str, float]] = {}
    for user, client, name, value in rows["quotas"]:
        limits.setdefault((user, client), {})[name] = value
    for (user, client), values in limits.items():
        quota = {"user": user, "client": client, "limits": values}
        yield Put(named_key(QUOTAS, user, client), encode(quota))


def _by_first(rows: list[tuple[Any, ...]]) -> defaultdict[Any, list[tuple[Any, ...]]]:
    found = defaultdict(list)
    for first, *rest in rows:
        found[first].append(tuple(rest))
    return found


def _named(names: tuple[str, ...], values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))

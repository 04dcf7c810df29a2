"""A data directory of version 0.1, whose topics, users and permissions were in tables."""

import sqlite3
from pathlib import Path

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.security.acl import RuleFilter
from chordmq.broker.security.quotas import Entity, Limit
from chordmq.broker.security.users import Users
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock

TOPIC = bytes(range(16))
GONE = bytes(16)
OLD = """
CREATE TABLE schema_versions (component TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO schema_versions VALUES ('topics', 1), ('access', 1), ('permissions', 1);
CREATE TABLE identity (only INTEGER, cluster_id TEXT, next_producer_id INTEGER);
INSERT INTO identity VALUES (1, 'AAAAAAAAAAAAAAAAAAAAAA', 3000);
CREATE TABLE topics (id BLOB PRIMARY KEY, name TEXT, partitions INTEGER);
CREATE TABLE topic_settings (topic BLOB REFERENCES topics (id), name TEXT, value TEXT);
CREATE TABLE removals (id BLOB, name TEXT, partitions INTEGER);
CREATE TABLE node_settings (name TEXT, value TEXT);
INSERT INTO node_settings VALUES ('log.retention.ms', '77');
CREATE TABLE group_settings (group_id TEXT, name TEXT, value TEXT);
INSERT INTO group_settings VALUES ('g', 'consumer.session.timeout.ms', '46000');
CREATE TABLE users (name TEXT PRIMARY KEY, is_admin INTEGER);
INSERT INTO users VALUES ('ann/a', 1), ('bob', 0);
CREATE TABLE credentials (user TEXT REFERENCES users (name), mechanism TEXT, iterations INTEGER,
    salt BLOB, stored_key BLOB, server_key BLOB);
INSERT INTO credentials VALUES ('bob', 'SCRAM-SHA-256', 4096, x'00', x'01', x'02');
CREATE TABLE tokens (digest BLOB, id TEXT, user TEXT, label TEXT, created_ms INTEGER,
    expires_ms INTEGER);
INSERT INTO tokens VALUES (x'03', 'tok', 'bob', 'laptop', 5, NULL);
CREATE TABLE access_secret (only INTEGER, value BLOB);
INSERT INTO access_secret VALUES (1, x'0405');
CREATE TABLE acls (kind TEXT, name TEXT, match TEXT, principal TEXT, host TEXT, operation TEXT,
    effect TEXT);
INSERT INTO acls VALUES ('topic', 't', 'literal', 'User:bob', '*', 'read', 'allow');
CREATE TABLE roles (name TEXT PRIMARY KEY);
INSERT INTO roles VALUES ('auditor'), ('viewer');
CREATE TABLE role_permissions (role TEXT, kind TEXT, name TEXT, match TEXT, operation TEXT);
INSERT INTO role_permissions VALUES ('auditor', 'topic', 'x', 'literal', 'describe');
CREATE TABLE role_members (role TEXT, principal TEXT);
INSERT INTO role_members VALUES ('auditor', 'User:ann'), ('viewer', 'User:bob');
CREATE TABLE quotas (user TEXT, client TEXT, name TEXT, value REAL);
INSERT INTO quotas VALUES ('bob', '', 'producer_byte_rate', 1000.0);
"""


def old_directory(root: Path) -> None:
    connection = sqlite3.connect(root / "meta.db")
    connection.executescript(OLD)
    connection.execute("INSERT INTO topics VALUES (?, 't', 2)", (TOPIC,))
    connection.execute("INSERT INTO topic_settings VALUES (?, 'flush', 'os')", (TOPIC,))
    connection.execute("INSERT INTO removals VALUES (?, 'gone', 1)", (GONE,))
    connection.commit()
    connection.close()
    for name in ("t-0", "t-1", "gone-0"):
        (root / "topics" / name).mkdir(parents=True)


async def test_everything_of_an_older_version_is_there_and_stays(tmp_path: Path) -> None:
    old_directory(tmp_path)

    for _ in range(2):
        broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
        users = Users(broker.image, SystemClock())
        topic = broker.topics.get("t")
        directories = sorted(one.name for one in (tmp_path / "topics").iterdir())
        permissions = broker.permissions
        assert broker.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"
        assert (topic.id, len(topic.partitions), topic.overrides) == (TOPIC, 2, {"flush": "os"})
        assert broker.settings.dynamic == {"log.retention.ms": "77"}
        assert broker.group_settings.texts("g") == {"consumer.session.timeout.ms": "46000"}
        assert [user.name for user in users] == ["ann/a", "bob"]
        assert users.get("ann/a").is_admin
        assert users.get("bob").credentials["SCRAM-SHA-256"].server_key == b"\x02"
        assert [token.label for token in users.tokens("bob")] == ["laptop"]
        assert users.secret == b"\x04\x05"
        assert [rule.principal for rule in permissions.rules(RuleFilter())] == ["User:bob"]
        assert permissions.role("auditor").members == {"User:ann"}
        assert permissions.role("viewer").members == {"User:bob"}
        assert permissions.role("viewer").permissions
        limits = permissions.quotas.get(Entity(user="bob", client=""))
        assert limits == {Limit("producer_byte_rate"): 1000.0}
        assert directories[:1] == [f"gone-0.{GONE.hex()}-delete"]
        assert directories[1:] == ["t-0", "t-1"]
        broker.close()

    tables = sqlite3.connect(tmp_path / "meta.db").execute("SELECT name FROM sqlite_master")
    assert not {name for (name,) in tables} & {"users", "acls", "identity", "removals"}


async def test_producer_ids_go_on_where_they_were(tmp_path: Path) -> None:
    old_directory(tmp_path)
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())

    assert await broker.new_producer_id() == 3000

    broker.close()

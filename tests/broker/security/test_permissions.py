"""ACLs, roles and quotas last: across restarts, and through a document and back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from chordmq.broker.security.acl import Effect, Kind, Match, Operation, Rule, RuleFilter
from chordmq.broker.security.permissions import (
    AclSettings,
    Changed,
    Permissions,
    as_json,
    read_document,
)
from chordmq.broker.security.principal import Principal
from chordmq.broker.security.quotas import DEFAULT, Entity, Limit
from chordmq.broker.security.roles import BUILT_IN, Permission, Role
from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.errors import CannotStart, InvalidRequest, UnknownRole
from chordmq.storage.metadata.database import Database

Open = Callable[..., Permissions]

READ = Rule(
    kind=Kind.TOPIC,
    name="pay-",
    match=Match.PREFIXED,
    principal="User:alice",
    operation=Operation.READ,
)
DENY = Rule(
    kind=Kind.GROUP,
    name="*",
    principal="User:bob",
    host="10.0.0.1",
    operation=Operation.ALL,
    effect=Effect.DENY,
)
AUDITOR = Role(
    name="auditor",
    permissions=(Permission(kind=Kind.TOPIC, operation=Operation.DESCRIBE),),
    members=frozenset({"Group:audit"}),
)
EVERY = RuleFilter()


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Give a function that opens what the last one left on disk."""
    opened: list[Database] = []

    def open_again(settings: AclSettings | None = None) -> Permissions:
        while opened:
            opened.pop().close()
        opened.append(Database(tmp_path / "meta.db"))
        return Permissions(Image.local(opened[0], SystemClock()), settings or AclSettings())

    yield open_again
    for database in opened:
        database.close()


async def furnished(reopen: Open) -> Permissions:
    permissions = reopen()
    await permissions.add_rules([READ, DENY])
    await permissions.save_role(AUDITOR)
    await permissions.set_member("viewer", "User:carol")
    await permissions.set_limits(
        {Entity(user="alice"): {Limit.PRODUCE: 1000}, Entity(client=DEFAULT): {Limit.REQUEST: 50}}
    )
    return permissions


async def test_everything_is_there_after_a_restart(reopen: Open) -> None:
    """C9: durable."""
    before = (await furnished(reopen)).document()
    again = reopen()
    assert again.document() == before
    assert again.rules(EVERY) == [READ, DENY]
    assert again.roles["auditor"] == AUDITOR
    assert again.quotas.get(Entity(user="alice")) == {Limit.PRODUCE: 1000}
    member = Principal("x", frozenset({"audit"}))
    assert again.acl.allows(member, "", Operation.DESCRIBE, Kind.TOPIC, "t")


async def test_what_is_removed_is_gone_at_once_and_after_a_restart(reopen: Open) -> None:
    """C9: changed at run time, effective at once."""
    permissions = await furnished(reopen)
    alice, carol = Principal("alice"), Principal("carol")
    assert permissions.acl.allows(alice, "", Operation.READ, Kind.TOPIC, "pay-in")
    assert permissions.acl.allows(carol, "", Operation.DESCRIBE, Kind.TOPIC, "t")
    assert await permissions.remove_rules([EVERY]) == [[READ, DENY]]
    await permissions.remove_role("auditor")
    await permissions.remove_role("viewer")
    await permissions.set_limits({Entity(user="alice"): {Limit.PRODUCE: None}})
    for one in (permissions, reopen()):
        assert not one.acl.allows(alice, "", Operation.READ, Kind.TOPIC, "pay-in")
        assert not one.acl.allows(carol, "", Operation.DESCRIBE, Kind.TOPIC, "t")
        assert one.roles == BUILT_IN
        assert list(one.quotas) == [(Entity(client=DEFAULT), {Limit.REQUEST: 50})]


async def test_a_document_holds_everything_and_can_be_read_back(
    reopen: Open, tmp_path: Path
) -> None:
    """C9: JSON file import and export."""
    exported = msgspec.json.encode(as_json((await furnished(reopen)).document()))
    file = tmp_path / "acls.json"
    file.write_bytes(exported)
    assert "role" not in json.loads(exported)["acls"][0]
    (tmp_path / "meta.db").rename(tmp_path / "old.db")
    fresh = reopen(AclSettings(file=str(file)))
    assert fresh.rules(EVERY) == []
    await fresh.load_file()
    assert fresh.document() == read_document(exported)


async def test_importing_a_document_adds_and_can_replace(reopen: Open) -> None:
    """C9: by default nothing is taken away."""
    permissions = await furnished(reopen)
    document = read_document(
        b'{"acls": [{"kind": "topic", "name": "t", "principal": "User:x", "operation": "all"}]}'
    )
    await permissions.merge(document)
    assert len(permissions.rules(EVERY)) == 3
    await permissions.replace_all(document)
    assert permissions.document() == document
    assert reopen().document() == document


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{",
        b'{"acls": [{"kind": "tree", "name": "t", "principal": "User:x", "operation": "all"}]}',
        b'{"acls": [{"kind": "topic", "name": "t", "principal": "x", "operation": "all"}]}',
        b'{"acls": [{"kind": "cluster", "name": "t", "principal": "User:x", "operation": "all"}]}',
        b'{"roles": [{"name": "viewer", "permissions": [{"kind": "topic", "operation": "all"}]}]}',
        b'{"roles": [{"name": "r", "members": ["alice"]}]}',
        b'{"quotas": [{"limits": {"producer_byte_rate": 1}}]}',
        b'{"quotas": [{"user": "u", "limits": {"speed": 1}}]}',
        b'{"acls": [{"kind": "topic", "name": "t", "principal": "User:x", "operation": "all",'
        b' "effects": "deny"}]}',
    ],
)
async def test_a_document_with_a_fault_changes_nothing(
    reopen: Open, tmp_path: Path, text: bytes
) -> None:
    """C12: and a node does not start with such a file."""
    file = tmp_path / "acls.json"
    file.write_bytes(text)
    permissions = reopen(AclSettings(file=str(file)))
    with pytest.raises(CannotStart, match=r"acls\.json"):
        await permissions.load_file()
    assert permissions.document() == read_document(b"{}")


async def test_a_rule_cannot_pretend_to_come_from_a_role(reopen: Open) -> None:
    """C9: otherwise no filter would find it again."""
    permissions = reopen()
    document = read_document(
        b'{"acls": [{"kind": "topic", "name": "t", "principal": "User:x", "operation": "all",'
        b' "role": "admin"}]}'
    )
    await permissions.merge(document)
    assert [rule.role for rule in permissions.rules(EVERY)] == [""]


async def test_roles_that_are_not_there_or_fixed_are_refused(reopen: Open) -> None:
    """A10: errors named by the fault."""
    permissions = reopen()
    with pytest.raises(UnknownRole, match="admin, operator, producer, consumer, viewer"):
        await permissions.set_member("boss", "User:x")
    with pytest.raises(InvalidRequest):
        await permissions.save_role(Role(name="admin", permissions=AUDITOR.permissions))


async def test_whoever_keeps_watch_is_told_of_every_change(reopen: Open) -> None:
    """E13: permission changes can be audited."""
    permissions = reopen()
    seen: list[Changed] = []
    permissions.watchers.append(seen.append)
    await permissions.add_rules([READ], by="User:admin")
    await permissions.add_rules([READ], by="User:admin")
    await permissions.set_member("viewer", "User:x", by="User:admin")
    await permissions.set_limits({Entity(user="u"): {Limit.FETCH: 5}}, by="User:admin")
    await permissions.remove_rules([EVERY], by="User:admin")
    assert [change.what for change in seen] == ["acl", "role", "quota", "acl"]
    assert seen[0].added == ("allow User:alice read topic pay-*",)
    assert seen[3].removed == seen[0].added
    assert {change.by for change in seen} == {"User:admin"}

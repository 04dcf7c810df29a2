"""ACLs, roles and quotas as rows that last."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.permissions import (
    AclRow,
    PermissionRow,
    PermissionTable,
    QuotaRow,
    RoleRow,
)

READ = AclRow("topic", "t", "literal", "User:x", "*", "read", "allow")
WRITE = READ._replace(operation="write")
ROLE = RoleRow("r", (PermissionRow("topic", "t", "literal", "read"),), frozenset({"User:x"}))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Give an empty database."""
    database = Database(tmp_path / "meta.db")
    yield database
    database.close()


async def test_acls_are_added_and_removed_in_one_step(database: Database) -> None:
    """C9: durable; adding twice is adding once."""
    table = PermissionTable(database)
    await table.change_acls(add=[READ, READ], remove=[])
    await table.change_acls(add=[WRITE], remove=[READ])
    assert PermissionTable(database).acls() == [WRITE]


async def test_a_role_is_replaced_and_forgotten_as_a_whole(database: Database) -> None:
    """A10: with its permissions and members."""
    table = PermissionTable(database)
    await table.save_role(ROLE)
    assert PermissionTable(database).roles() == [ROLE]
    await table.save_role(ROLE._replace(members=frozenset({"Group:g"}), permissions=()))
    assert table.roles() == [RoleRow("r", (), frozenset({"Group:g"}))]
    await table.remove_role("r")
    assert table.roles() == []


async def test_quotas_are_replaced_by_user_and_client_id(database: Database) -> None:
    """C2: no limits remove the row."""
    table = PermissionTable(database)
    rows = [QuotaRow("u", "", {"a": 1.0}), QuotaRow("u", "c", {"a": 2.0, "b": 3.0})]
    await table.save_quotas(rows)
    assert PermissionTable(database).quotas() == rows
    await table.save_quotas([QuotaRow("u", "", {}), QuotaRow("u", "c", {"b": 4.0})])
    assert table.quotas() == [QuotaRow("u", "c", {"b": 4.0})]

"""ACLs and quotas through the client's own calls, on a real node."""

import pytest

from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.errors import BrokerRefused
from chordmq.client.permissions import (
    DEFAULT,
    Acl,
    AclFilter,
    Quota,
    add_acls,
    list_acls,
    list_quotas,
    remove_acls,
    set_quota,
)
from tests.running_node import RunningNode


async def test_acls_are_what_was_added_until_they_are_removed(node: RunningNode, name: str) -> None:
    """C9: every field travels there and back."""
    acls = [
        Acl(principal="User:x", operation="read", kind="topic", name=name, match="prefixed"),
        Acl(
            principal="Group:g",
            operation="two-phase-commit",
            kind="transactional-id",
            name=name,
            host="10.0.0.1",
            effect="deny",
        ),
    ]
    async with Admin(node.bootstrap) as admin:
        await add_acls(admin.cluster, acls)
        found = await list_acls(admin.cluster, AclFilter(name=name))
        assert sorted(found, key=str) == sorted(acls, key=str)
        covering = AclFilter(name=name + "-more", covering=True)
        assert acls[0] in await list_acls(admin.cluster, covering)
        assert await remove_acls(admin.cluster, AclFilter(name=name, effect="deny")) == acls[1:]
        assert await remove_acls(admin.cluster, AclFilter(name=name)) == acls[:1]


async def test_quotas_are_what_was_set_until_they_are_removed(node: RunningNode, name: str) -> None:
    """C2: for users, client ids and defaults."""
    async with Admin(node.bootstrap) as admin:
        await set_quota(admin.cluster, {"producer_byte_rate": 5e6}, user=name, client=DEFAULT)
        quotas = [quota for quota in await list_quotas(admin.cluster) if quota.user == name]
        assert quotas == [Quota(user=name, client=DEFAULT, limits={"producer_byte_rate": 5e6})]
        await set_quota(admin.cluster, {"producer_byte_rate": None}, user=name, client=DEFAULT)
        assert name not in {quota.user for quota in await list_quotas(admin.cluster)}


async def test_what_the_broker_refuses_is_an_error(node: RunningNode, name: str) -> None:
    """C12: with the broker's own reason."""
    async with Admin(node.bootstrap) as admin:
        nobody = Acl(principal="nobody", operation="read", kind="topic", name=name)
        with pytest.raises(BrokerRefused) as refused:
            await add_acls(admin.cluster, [nobody])
        assert refused.value.code == Code.INVALID_REQUEST
        with pytest.raises(BrokerRefused):
            await set_quota(admin.cluster, {"speed": 1.0}, user=name)

"""DescribeClientQuotas and AlterClientQuotas."""

from collections.abc import Mapping
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages import alter_client_quotas as altering
from chordmq.codecs.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from chordmq.codecs.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from chordmq.codecs.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.fronts.kafka.conftest import Ask

EXACT, DEFAULT, SPECIFIED = range(3)
UNSUPPORTED_VERSION, INVALID_REQUEST, QUOTA_EXCEEDED = 35, 42, 89


def change(entity: Mapping[str, str | None], **limits: float | None) -> AlterClientQuotasRequest:
    entry = AlterClientQuotasRequestEntryData(
        entity=[altering.EntityData(kind, name) for kind, name in entity.items()],
        ops=[OpData(key, value or 0.0, value is None) for key, value in limits.items()],
    )
    return AlterClientQuotasRequest(entries=[entry])


def shown(answer: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


@pytest.mark.parametrize("version", AlterClientQuotasRequest.versions)
async def test_limits_are_set_shown_and_removed(ask: Ask, version: int) -> None:
    """C2: users, client ids, both, and the default of each."""
    for entity in ({"user": "u"}, {"client-id": None}, {"user": None, "client-id": "c"}):
        request = change(entity, producer_byte_rate=1000.0, request_percentage=12.5)
        (row,) = (await ask(request, version)).entries
        assert row.error_code == 0
    limits = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    answer = await ask(DescribeClientQuotasRequest(), version)
    assert shown(answer) == {
        (("user", "u"),): limits,
        (("client-id", None),): limits,
        (("user", None), ("client-id", "c")): limits,
    }
    await ask(change({"user": "u"}, producer_byte_rate=None, request_percentage=None), version)
    assert len(shown(await ask(DescribeClientQuotasRequest(), version))) == 2


async def test_filters_choose_by_name_by_default_and_by_kind(ask: Ask) -> None:
    """C2: strict filters want no other part."""
    for entity in ({"user": "u"}, {"user": "u", "client-id": "c"}, {"user": None}):
        await ask(change(entity, producer_byte_rate=1.0))

    async def found(*parts: tuple[str, int, str | None], strict: bool = False) -> int:
        components = [ComponentData(*part) for part in parts]
        return len(
            shown(await ask(DescribeClientQuotasRequest(components=components, strict=strict)))
        )

    assert await found(("user", EXACT, "u")) == 2
    assert await found(("user", EXACT, "u"), strict=True) == 1
    assert await found(("user", DEFAULT, None)) == 1
    assert await found(("user", SPECIFIED, None)) == 3
    assert await found(("client-id", SPECIFIED, None)) == 1
    assert await found(("ip", EXACT, "10.0.0.1")) == 0
    answer = await ask(DescribeClientQuotasRequest(components=[ComponentData("rack", EXACT, "x")]))
    assert (answer.error_code, answer.entries) == (UNSUPPORTED_VERSION, None)
    both = [ComponentData("ip", EXACT, "10.0.0.1"), ComponentData("user", EXACT, "u")]
    answer = await ask(DescribeClientQuotasRequest(components=both))
    assert (answer.error_code, answer.entries) == (INVALID_REQUEST, None)


async def test_addresses_are_limited_in_how_often_they_connect(ask: Ask, broker: Broker) -> None:
    """C2: KIP-612; the limits of addresses and of clients are set apart."""
    for address, rate in (("10.0.0.1", 2.0), (None, 0.0)):
        (row,) = (await ask(change({"ip": address}, connection_creation_rate=rate))).entries
        assert row.error_code == 0, row.error_message
    wanted = DescribeClientQuotasRequest(components=[ComponentData("ip", SPECIFIED, None)])
    assert shown(await ask(wanted)) == {
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 2.0},
        (("ip", None),): {"connection_creation_rate": 0.0},
    }
    quotas = broker.permissions.quotas
    waits = [quotas.connection_wait_s("10.0.0.1", 0.0) for _ in range(3)]
    assert waits == [0.0, 0.0, 0.5]
    assert quotas.connection_wait_s("10.0.0.9", 0.0) > 1
    await ask(change({"ip": None}, connection_creation_rate=None))
    assert quotas.connection_wait_s("10.0.0.9", 0.0) == 0


@pytest.mark.parametrize(
    "request_",
    [
        change({}, producer_byte_rate=1.0),
        change({"ip": "10.0.0.1"}, connection_creation_rate=1.5),
        change({"ip": "10.0.0.1"}, producer_byte_rate=1.0),
        change({"ip": "10.0.0.1", "user": "u"}, connection_creation_rate=1.0),
        change({"ip": "here"}, connection_creation_rate=1.0),
        change({"user": "u"}, connection_creation_rate=1.0),
        change({"user": ""}, producer_byte_rate=1.0),
        change({"user": "u"}, speed=1.0),
        change({"user": "u"}, producer_byte_rate=-1.0),
        change({"user": "u"}, producer_byte_rate=1.5),
    ],
)
async def test_a_quota_without_sense_is_refused(
    ask: Ask, broker: Broker, request_: AlterClientQuotasRequest
) -> None:
    """C12: and nothing is kept of it."""
    (row,) = (await ask(request_)).entries
    assert row.error_code == INVALID_REQUEST
    assert not broker.permissions.quotas


async def test_trying_a_change_out_changes_nothing(ask: Ask, broker: Broker) -> None:
    """C2: validate_only."""
    request = change({"user": "u"}, producer_byte_rate=1.0)
    request.validate_only = True
    (row,) = (await ask(request)).entries
    assert row.error_code == 0
    assert not broker.permissions.quotas


async def test_too_many_new_partitions_are_refused_until_later(ask: Ask) -> None:
    """C2: controller_mutation_rate (KIP-599)."""
    await ask(change({"client-id": None}, controller_mutation_rate=0.01))
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("a", "b")
    ]
    answer = await ask(CreateTopicsRequest(topics=topics))
    assert [row.error_code for row in answer.topics] == [0, QUOTA_EXCEEDED]

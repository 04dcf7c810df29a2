"""The APIs of the consumer protocol as a client sees them, in every version."""

from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka.messages.api_versions import ApiVersionsRequest
from chordmq.codecs.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from chordmq.codecs.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chordmq.codecs.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from chordmq.codecs.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.fronts.kafka.conftest import Ask

GROUP, SET = 32, 0
INVALID_CONFIG, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 40, 42, 69
VERSIONS = pytest.mark.parametrize("version", range(2))


@pytest.fixture
def settings() -> BrokerSettings:
    return BrokerSettings(offsets_topic_num_partitions=1)


@pytest.fixture(autouse=True)
async def loaded(broker: Broker) -> None:
    await broker.groups.loaded.wait()
    await broker.topics.create("t", 2, 1)


def joining(**changes: Any) -> ConsumerGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **changes,
    }
    return ConsumerGroupHeartbeatRequest(**fields)


@VERSIONS
async def test_a_member_joins_and_is_described(ask: Ask, broker: Broker, version: int) -> None:
    """C4: ConsumerGroupHeartbeat and ConsumerGroupDescribe."""
    joined: ConsumerGroupHeartbeatResponse = await ask(joining(), version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 1)
    assert joined.heartbeat_interval_ms == 5_000
    assert joined.assignment is not None
    (topic,) = joined.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (broker.topics.get("t").id, [0, 1])
    described = await ask(ConsumerGroupDescribeRequest(group_ids=["g", "x"]), version)
    group, unknown = described.groups
    assert (group.group_state, group.members[0].member_id) == ("Stable", "m")
    assert group.members[0].member_type == (1 if version else -1)
    assert (unknown.error_code, unknown.group_state) == (GROUP_ID_NOT_FOUND, "Dead")


async def test_only_version_0_names_members(ask: Ask) -> None:
    """C12: from version 1 on a member brings its id."""
    given = await ask(joining(member_id=""), 0)
    assert given.error_code == 0
    assert given.member_id
    refused = await ask(joining(member_id=""), 1)
    assert (refused.error_code, refused.error_message) == (
        INVALID_REQUEST,
        "MemberId can't be empty.",
    )


async def test_clients_are_told_that_the_protocol_is_there(ask: Ask) -> None:
    """C4: `group.version` switches it on."""
    answer = await ask(ApiVersionsRequest(), 4)
    levels = {row.name: row.max_version_level for row in answer.finalized_features}
    assert levels["group.version"] == 1


async def test_a_group_can_have_time_outs_of_its_own(ask: Ask, broker: Broker) -> None:
    """C4: resource GROUP, within the limits of the node, effective with the next heartbeat."""

    async def alter(name: str, value: str) -> int:
        config = AlterableConfig(name=name, config_operation=SET, value=value)
        resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[config])
        answer = await ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return int(answer.responses[0].error_code)

    assert await alter("consumer.heartbeat.interval.ms", "4999") == INVALID_CONFIG
    assert await alter("consumer.session.timeout.ms", "60001") == INVALID_CONFIG
    assert await alter("consumer.heartbeat.interval.ms", "6000") == 0
    assert await alter("consumer.session.timeout.ms", "60000") == 0
    assert (await ask(joining(), 1)).heartbeat_interval_ms == 6_000
    wanted = DescribeConfigsResource(resource_type=GROUP, resource_name="g")
    answer = await ask(DescribeConfigsRequest(resources=[wanted]), 4)
    values = {row.name: row.value for row in answer.results[0].configs}
    assert values["consumer.session.timeout.ms"] == "60000"
    group = broker.groups.find("g")
    deadline_ms = group.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms - int(broker.clock.monotonic_s() * 1000) > 50_000

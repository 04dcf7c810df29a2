"""Any request that can be decoded gets an answer that can be encoded, whatever it asks for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.codecs.kafka.messages.alter_configs import AlterConfigsRequest
from chordmq.codecs.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from chordmq.codecs.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from chordmq.codecs.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from chordmq.codecs.kafka.messages.delete_records import DeleteRecordsRequest
from chordmq.codecs.kafka.messages.delete_topics import DeleteTopicsRequest
from chordmq.codecs.kafka.messages.describe_cluster import DescribeClusterRequest
from chordmq.codecs.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from chordmq.codecs.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from chordmq.codecs.kafka.messages.describe_producers import DescribeProducersRequest
from chordmq.codecs.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from chordmq.codecs.kafka.messages.elect_leaders import ElectLeadersRequest
from chordmq.codecs.kafka.messages.find_coordinator import FindCoordinatorRequest
from chordmq.codecs.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from chordmq.codecs.kafka.messages.list_config_resources import ListConfigResourcesRequest
from chordmq.codecs.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from chordmq.codecs.kafka.messages.metadata import MetadataRequest
from tests.codecs.kafka.arbitrary import messages
from tests.fronts.kafka.conftest import Ask, asking

REQUESTS: list[type[Any]] = [
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
]


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_request_is_answered(tmp_path: Path, kind: type[Any]) -> None:
    """C12: no request of an administrator ends in a fault of the node."""
    with asyncio.Runner() as runner:
        limits = BrokerSettings(max_partitions=20)
        broker = Broker(tmp_path, limits, SystemClock(), Flusher())
        ask = asking(broker)
        runner.run(ask(topic_of("t")))

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(data=st.data())
        def answered(data: st.DataObject) -> None:
            version = data.draw(st.sampled_from(kind.versions))
            runner.run(ask(data.draw(messages(kind, version)), version))

        answered()
        broker.close()


LONGEST = "x" * (2**15 - 1)


@pytest.mark.parametrize(
    "request_",
    [
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=LONGEST, count=2)]),
        CreateTopicsRequest(topics=[CreatableTopic(name=LONGEST, num_partitions=1)]),
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=name, value=value)],
                )
                for name, value in ((LONGEST, "1"), ("retention.ms", LONGEST))
            ]
        ),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=LONGEST)
                for kind in (2, 4, 8)
            ]
        ),
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=8,
                    resource_name="7",
                    configs=[AlterableConfig(name=LONGEST, value="INFO")],
                )
            ]
        ),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_the_longest_names_are_refused_in_answers_that_fit(ask: Ask, request_: Any) -> None:
    """C12: the oldest versions have room for texts of 32,767 bytes only."""
    await ask(request_, request_.versions[0])


def topic_of(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)]
    )

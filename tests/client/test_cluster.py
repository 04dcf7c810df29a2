"""Metadata and connections: found, kept, lost and found again."""

import pytest

from chordmq.client.cluster import Cluster, parse_bootstrap
from chordmq.client.codes import Code
from chordmq.client.connection import Address
from chordmq.client.errors import BrokerRefused, CannotConnect, Closed
from chordmq.codecs.kafka.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.scripted_broker import DEFAULTS, ScriptedBroker, scripted_broker
from tests.running_node import RunningNode, free_port


def test_bootstrap_addresses_are_read_as_people_write_them() -> None:
    assert parse_bootstrap("a:1, b ,[::1]:3,[::2]") == [
        Address("a", 1),
        Address("b", 9092),
        Address("::1", 3),
        Address("::2", 9092),
    ]


@pytest.mark.parametrize("text", ["", " , ", "a:b", "a:0", "a:99999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


async def test_the_first_bootstrap_address_that_answers_is_used(node: RunningNode) -> None:
    cluster = Cluster(f"127.0.0.1:{free_port()},{node.bootstrap}")
    await cluster.open()
    assert Address(*node.address) in cluster.nodes.values()
    cluster.close()


async def test_nobody_to_connect_to_is_told_without_retries() -> None:
    with pytest.raises(CannotConnect):
        await Cluster(f"127.0.0.1:{free_port()}").open()


async def test_a_topic_that_is_just_created_is_waited_for() -> None:
    answers = 0

    def slowly(broker: ScriptedBroker, request: MetadataRequest) -> MetadataResponse:
        nonlocal answers
        answer: MetadataResponse = DEFAULTS["Metadata"](broker, request)
        for row in answer.topics:
            answers += 1
            row.error_code = Code.LEADER_NOT_AVAILABLE if answers < 3 else 0
        return answer

    async with scripted_broker() as broker:
        broker.answers["Metadata"] = slowly
        cluster = Cluster(broker.bootstrap)
        assert (await cluster.topic("t")).name == "t"
        assert answers == 3
        assert await cluster.leader("t", 0) == 1
        assert answers == 3, "what is known is not asked again"
        cluster.close()


async def test_a_partition_that_does_not_exist_has_no_leader(node: RunningNode, name: str) -> None:
    cluster = Cluster(node.bootstrap)
    await cluster.topic(name, create=True)
    with pytest.raises(BrokerRefused) as caught:
        await cluster.leader(name, 10_000)
    assert caught.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION
    cluster.close()


async def test_a_lost_connection_is_opened_anew(own_node: RunningNode) -> None:
    """An outgoing connection is retried with back-off until the node is back."""
    cluster = Cluster(own_node.bootstrap)
    await cluster.open()
    own_node.kill9()
    own_node.start()
    answer = await cluster.retrying(lambda: cluster.refresh([]), [], 60.0)
    assert answer.cluster_id == cluster.cluster_id
    cluster.close()
    with pytest.raises(Closed):
        await cluster.node(next(iter(cluster.nodes)))

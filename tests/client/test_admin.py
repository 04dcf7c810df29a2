"""Topics and groups administered on a real node, and refusals with Kafka's codes."""

import pytest

from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.errors import BrokerRefused, CannotConnect
from chordmq.client.membership import GroupSettings
from chordmq.client.producer import Producer
from tests.running_node import RunningNode, free_port
from tests.wire import Wire


def refused(code: Code) -> "pytest.RaisesExc[BrokerRefused]":
    return pytest.RaisesExc(BrokerRefused, check=lambda error: error.code == code)


async def test_a_topic_is_created_described_grown_and_deleted(node: RunningNode, name: str) -> None:
    """C1: topics are administered over the Kafka protocol."""
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 3)
        info = await admin.topic(name)
        assert [part.index for part in info.partitions] == [0, 1, 2]
        assert name in [row.name for row in await admin.topics()]
        await admin.add_partitions(name, 5)
        assert len((await admin.topic(name)).partitions) == 5
        await admin.delete_topic(name)
        with refused(Code.UNKNOWN_TOPIC_OR_PARTITION):
            await admin.topic(name)


async def test_what_a_broker_refuses_carries_its_code(node: RunningNode, name: str) -> None:
    """C7, C12: unknown settings and impossible numbers are refused with Kafka's errors."""
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 2)
        with refused(Code.TOPIC_ALREADY_EXISTS):
            await admin.create_topic(name)
        with refused(Code.INVALID_PARTITIONS):
            await admin.add_partitions(name, 1)
        with refused(Code.INVALID_CONFIG):
            await admin.alter_settings(name, {"no.such.setting": "1"})
        with refused(Code.INVALID_REPLICATION_FACTOR):
            await admin.create_topic(f"{name}-2", 1, 99)
        with refused(Code.INVALID_TOPIC_EXCEPTION):
            await admin.create_topic("not/legal")
        with refused(Code.UNKNOWN_TOPIC_OR_PARTITION):
            await admin.delete_topic(f"{name}-none")


async def test_validation_alone_creates_nothing(node: RunningNode, name: str) -> None:
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 1, validate_only=True)
        with refused(Code.UNKNOWN_TOPIC_OR_PARTITION):
            await admin.topic(name)


async def test_settings_are_shown_changed_and_reset(node: RunningNode, name: str) -> None:
    """C7: topic settings by Kafka's names, with their sources."""
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 1, -1, {"retention.ms": "5000"})

        async def retention() -> tuple[str | None, str]:
            rows = {row.name: row for row in await admin.settings(name)}
            return rows["retention.ms"].value, rows["retention.ms"].source

        assert await retention() == ("5000", "topic")
        await admin.alter_settings(name, {"retention.ms": "6000"})
        assert await retention() == ("6000", "topic")
        await admin.alter_settings(name, {}, ["retention.ms"])
        assert (await retention())[1] != "topic"


async def test_a_group_is_listed_measured_moved_and_deleted(node: RunningNode, name: str) -> None:
    settings = ConsumerSettings(
        group=GroupSettings(group=name, session_timeout_ms=30_000, rebalance_timeout_ms=30_000)
    )
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 2)
        async with Producer(node.bootstrap) as producer:
            for number in range(10):
                await producer.enqueue(name, b"x", partition=number % 2)
        async with Consumer(node.bootstrap, settings) as consumer:
            await consumer.subscribe(name)
            read = 0
            while read < 10:
                chunk = await consumer.poll(60.0)
                assert chunk is not None
                read += len(chunk.records)
            await consumer.commit({(name, 0): 2})
            described = await admin.describe_group(name)
            assert (described.state, described.assignor) == ("Stable", "range")
            assert described.members[0].partitions == ((name, 0), (name, 1))
            assert [(row.committed, row.lag) for row in await admin.lag(name)] == [
                (2, 3),
                (None, 5),
            ]
            with refused(Code.NON_EMPTY_GROUP):
                await admin.delete_group(name)
        assert (name, "Empty") in [(row.group, row.state) for row in await admin.groups()]
        assert [row.lag for row in await admin.lag(name)] == [0, 0]
        await admin.set_offsets(name, {(name, 0): 1, (name, 1): 0})
        assert await admin.committed(name) == {(name, 0): 1, (name, 1): 0}
        assert [row.lag for row in await admin.lag(name)] == [4, 5]
        await admin.delete_group(name)
        with refused(Code.GROUP_ID_NOT_FOUND):
            await admin.describe_group(name)


async def test_an_administrator_without_a_broker_is_told_at_once() -> None:
    with pytest.raises(CannotConnect, match="connection refused"):
        async with Admin(f"127.0.0.1:{free_port()}"):
            raise AssertionError


async def test_a_group_of_the_new_protocol_is_described_as_any_other(
    node: RunningNode, name: str
) -> None:
    """C4: state, assignor and what each member reads, for lag and the command line."""
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 2)
        with Wire(node.address) as wire:
            wire.call(
                68, 1, group_id=name, member_id="m", member_epoch=0, rebalance_timeout=30_000,
                subscribed_topic_names=[name], topic_partitions=[],
            )  # fmt: skip
        group = await admin.describe_group(name)
        assert (group.state, group.assignor) == ("Stable", "uniform")
        assert [sorted(member.partitions) for member in group.members] == [[(name, 0), (name, 1)]]
        assert [row.kind for row in await admin.groups() if row.group == name] == ["consumer"]
        with refused(Code.GROUP_ID_NOT_FOUND):
            await admin.describe_group(f"{name}-unknown")

"""Transactions of the client on a real node: all or nothing, and only the newest producer."""

import asyncio

import pytest

from chordmq.client.admin import Admin
from chordmq.client.cluster import Cluster
from chordmq.client.codes import Code
from chordmq.client.consumer import Consumer
from chordmq.client.errors import BrokerRefused
from chordmq.client.transaction import Transaction
from chordmq.records.record import NewRecord
from tests.running_node import RunningNode


def rows(*values: bytes) -> list[NewRecord]:
    return [NewRecord(1_000 + i, b"k%d" % i, value) for i, value in enumerate(values)]


async def values_in(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return what a reader of committed records sees, up to the end of the log."""
    found: list[bytes | None] = []
    async with Consumer(bootstrap) as consumer, Admin(bootstrap) as admin:
        await consumer.assign_topic(topic)
        ends = await admin.ends(consumer.assignment)
        while any(consumer.position(*place) < end for place, (_, end) in ends.items()):
            chunk = await consumer.poll(0.2)
            found += [record.value for record in chunk.records] if chunk else []
    return found


async def test_what_a_transaction_appends_is_seen_when_it_commits(
    node: RunningNode, name: str
) -> None:
    """C3: a reader of committed records sees all of it together with the committed offsets."""
    cluster = Cluster(node.bootstrap)
    await cluster.open()
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 3)
        async with Transaction(cluster, name) as transaction:
            await transaction.append(name, rows(b"a", b"b", b"c"))
            await transaction.commit_offsets(name, {(name, 0): 42}, "batch 41")
            assert await admin.committed(name) == {}
        # As in Kafka the commit is decided, and its markers reach the offsets a moment later.
        async with asyncio.timeout(60):
            while await admin.committed(name) != {(name, 0): 42}:
                pass  # each question takes a turn of the node's event loop
    cluster.close()
    assert sorted(filter(None, await values_in(node.bootstrap, name))) == [b"a", b"b", b"c"]


async def test_what_a_failed_transaction_has_appended_is_never_seen(
    node: RunningNode, name: str
) -> None:
    """C3: an error in the block aborts, and the next transaction of the id is unharmed."""
    cluster = Cluster(node.bootstrap)
    await cluster.open()
    transaction = await Transaction(cluster, name).__aenter__()
    await transaction.append(name, rows(b"lost"))
    await transaction.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    async with Transaction(cluster, name) as transaction:
        await transaction.append(name, rows(b"kept"))
    cluster.close()
    assert await values_in(node.bootstrap, name) == [b"kept"]


async def test_an_older_producer_of_the_same_id_is_fenced(node: RunningNode, name: str) -> None:
    """C3: what it left open is aborted, and it can no longer commit."""
    cluster = Cluster(node.bootstrap)
    await cluster.open()
    older = await Transaction(cluster, name).__aenter__()
    await older.append(name, rows(b"old"))
    async with Transaction(cluster, name) as newer:
        await newer.append(name, rows(b"new"))
    with pytest.raises(BrokerRefused) as refused:
        await older.end(committed=True)
    assert refused.value.code in (Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED)
    cluster.close()
    assert await values_in(node.bootstrap, name) == [b"new"]


async def test_a_transaction_larger_than_a_batch_keeps_its_order(
    node: RunningNode, name: str
) -> None:
    cluster = Cluster(node.bootstrap)
    await cluster.open()
    many = [NewRecord(1, None, b"%06d" % i + bytes(1_000)) for i in range(2_000)]
    async with Transaction(cluster, name) as transaction:
        await transaction.append(name, many, 0)
    cluster.close()
    assert await values_in(node.bootstrap, name) == [record.value for record in many]

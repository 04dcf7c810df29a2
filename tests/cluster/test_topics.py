"""Topics in the store of a cluster: several nodes create, change and delete the same ones."""

import asyncio
import uuid
from dataclasses import replace

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import Put, StoreConflict
from chordmq.cluster.state import (
    BrokerRegistration,
    Liveness,
    PartitionState,
    broker_key,
    encode,
    live_key,
)
from chordmq.cluster.topics import UNKNOWN, TopicRow, TopicTable
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.held import HeldRow, HeldTable
from tests.cluster.unreliable_store import UnreliableStore

ROW = TopicRow(bytes(range(16)), "t", 3, {"flush": "os"}, 2)


async def node(store: UnreliableStore, database: Database, number: int) -> TopicTable:
    """Return the topics as one of several brokers sees them."""
    puts = [
        Put(broker_key(number), encode(BrokerRegistration(uuid=f"u{number}"))),
        Put(live_key(number), encode(Liveness(epoch=1))),
    ]
    await store.store.commit([], puts)
    image = await Image.load(store)
    return TopicTable(image, HeldTable(database), Members(image, number, is_alone=False))


def placed(table: TopicTable, row: TopicRow) -> list[PartitionState]:
    return table.members.place(row.id, range(row.partitions), row.replication_factor)


async def test_a_topic_is_there_with_the_states_of_its_partitions(
    shared_store: UnreliableStore, database: Database
) -> None:
    first = await node(shared_store, database, 1)
    second = await node(shared_store, database, 2)
    await first.image.refresh()
    states = placed(first, ROW)

    await first.insert(ROW, states)
    await second.image.refresh()

    assert second.rows() == [ROW]
    assert [second.state(ROW.id, index)[0] for index in range(3)] == states
    assert all(set(state.replicas) == {1, 2} for state in states)
    assert second.held_of(ROW) == [HeldRow(ROW.id, "t", index) for index in range(3)]
    assert second.state(ROW.id, 3) == (UNKNOWN, 0)


async def test_of_two_who_create_the_same_topic_one_wins(
    shared_store: UnreliableStore, database: Database
) -> None:
    first = await node(shared_store, database, 1)
    second = await node(shared_store, database, 1)
    other = replace(ROW, id=uuid.UUID(int=9).bytes, replication_factor=1)
    mine = replace(ROW, replication_factor=1)

    outcomes = await asyncio.gather(
        first.insert(mine, placed(first, mine)),
        second.insert(other, placed(second, other)),
        return_exceptions=True,
    )

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "StoreConflict"]
    await first.image.refresh()
    (winner,) = first.rows()
    assert len(first.image.under("parts/")) == 3
    assert first.state(winner.id, 0)[0].leader == 1


async def test_of_two_who_let_a_topic_grow_one_wins_and_no_state_is_overwritten(
    shared_store: UnreliableStore, database: Database
) -> None:
    first = await node(shared_store, database, 1)
    row = replace(ROW, replication_factor=1)
    await first.insert(row, placed(first, row))
    second = await node(shared_store, database, 1)
    more = replace(row, partitions=5)
    states = first.members.place(row.id, range(3, 5), 1)

    await first.grow(more, states)
    revision = first.state(row.id, 4)[1]
    with pytest.raises(StoreConflict):
        await second.grow(more, states)

    await first.image.refresh()
    assert first.state(row.id, 4)[1] == revision
    assert first.rows() == [more]


async def test_a_topic_that_is_deleted_takes_its_partitions_along(
    shared_store: UnreliableStore, database: Database
) -> None:
    table = await node(shared_store, database, 1)
    row = replace(ROW, replication_factor=1)
    await table.insert(row, placed(table, row))

    await table.remove(row)

    assert (await shared_store.range("topics/")).entries == []
    assert (await shared_store.range("parts/")).entries == []
    with pytest.raises(StoreConflict):
        await table.remove(row)


async def test_a_topic_with_many_partitions_takes_several_commits(
    shared_store: UnreliableStore, database: Database
) -> None:
    shared_store.operations_max = 10
    table = await node(shared_store, database, 1)
    row = TopicRow(ROW.id, "t", 35)

    await table.insert(row, placed(table, row))

    assert len(table.held_of(row)) == 35


async def test_a_change_of_what_another_has_changed_is_refused(
    shared_store: UnreliableStore, database: Database
) -> None:
    first = await node(shared_store, database, 1)
    row = replace(ROW, replication_factor=1)
    await first.insert(row, placed(first, row))
    second = await node(shared_store, database, 2)

    await first.change(replace(row, settings={"flush": "disk"}))
    with pytest.raises(StoreConflict):
        await second.change(replace(row, settings={}))
    await first.set_defaults({"log.retention.ms": "1"})
    with pytest.raises(StoreConflict):
        await second.set_defaults({"log.retention.ms": "2"})

    assert first.defaults() == {"log.retention.ms": "1"}


async def test_a_node_alone_holds_everything_and_writes_no_states(database: Database) -> None:
    image = Image.local(database, SystemClock())
    table = TopicTable(image, HeldTable(database), Members(image, 7))

    await table.insert(ROW, placed(table, replace(ROW, replication_factor=1)))

    assert image.under("parts/") == []
    assert table.state(ROW.id, 2)[0] == PartitionState(replicas=(7,), leader=7, isr=(7,))
    assert len(table.held_of(ROW)) == 3

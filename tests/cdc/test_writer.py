"""Events and their position are written in one transaction, and found again."""

import pytest

from chordmq.cdc.change import Position
from chordmq.cdc.rendering import Rendered
from chordmq.cdc.settings import Source, read_plan
from chordmq.cdc.writer import Writer, transactional_id
from chordmq.client.admin import Admin
from chordmq.client.errors import BrokerRefused
from chordmq.client.transaction import Transaction
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord
from tests.running_node import RunningNode


def source_named(name: str) -> Source:
    settings = {"name": name.replace("-", "_"), "kind": "postgresql", "address": "x"}
    return read_plan({"sources": [settings]}).sources[0]


def rendered(source: Source, value: bytes) -> Rendered:
    found = Rendered(0)
    found.add(f"{source.name}.public.items", b"k", value)
    return found


async def test_a_position_is_found_again_behind_many_steps(node: RunningNode, name: str) -> None:
    source = source_named(name)
    async with Admin(node.bootstrap) as admin:
        for run in range(3):
            expected = Position(f"{run - 1}/79") if run else None
            # Taking over the id waits until the last transaction is seen by everybody.
            async with Transaction(admin.cluster, transactional_id(source)) as transaction:
                writer = Writer(source, admin, transaction, SystemClock())
                assert await writer.prepare() == expected
                for number in range(80):
                    await writer.write([rendered(source, b"v")], Position(f"{run}/{number}"))


async def test_what_a_dead_source_has_left_open_is_neither_told_nor_a_position(
    node: RunningNode, name: str
) -> None:
    """E8: output and position are in one transaction; the next process of a source ends it."""
    source = source_named(name)
    clock = SystemClock()
    async with Admin(node.bootstrap) as admin:
        first = await Transaction(admin.cluster, transactional_id(source)).__aenter__()
        writer = Writer(source, admin, first, clock)
        await writer.prepare()
        await writer.write([rendered(source, b"v")], Position("0/1"))
        # As if it died in the middle of the second step, having written more than is looked at.
        left = [NewRecord(0, b"k", b'{"at":"0/2"}')] * 200
        await first.append(source.positions, left, 0)
        async with Transaction(admin.cluster, transactional_id(source)) as second:
            assert await Writer(source, admin, second, clock).prepare() == Position("0/1")
        with pytest.raises(BrokerRefused, match=r"INVALID_PRODUCER_EPOCH|PRODUCER_FENCED"):
            await writer.write([rendered(source, b"v")], Position("0/3"))

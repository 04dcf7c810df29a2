"""Proves over real links that cursors are opened, and read, where they are kept."""

import pytest

from chordmq.broker.cursors.cursor import Cursor
from chordmq.broker.cursors.exchange import Exchange, Rows
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.wishes import Opening
from chordmq.errors import CoordinatorLoading, CoordinatorNotAvailable, UnknownTopic
from tests.broker.transactions.test_delegation import HERE, NOWHERE, THERE, Places
from tests.cluster.linked import Linked, linked, until_connected


class Keeper:
    """One node's cursors: what it was asked to open, and what its log holds."""

    def __init__(self, node: Linked) -> None:
        self.opened: list[Opening] = []
        self.rows: Rows = [(b"key", b"of node %d" % node.links.broker)]
        self.places = Places(node.links.broker)
        self.exchange = Exchange(node.links, self.places, self)  # type: ignore[arg-type]

    async def open_for(self, wanted: Opening) -> None:
        if wanted.topic == "gone":
            raise UnknownTopic("gone")
        self.opened.append(wanted)

    async def read_log(self, log_partition: int) -> Rows:
        return self.rows

    def kept(self, key: CursorKey) -> Cursor:
        raise CoordinatorLoading("not yet")

    def heard(self, key: CursorKey) -> None:
        raise AssertionError("nobody tells")


async def test_cursors_are_opened_by_the_leader_of_their_partition() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        here, there = Keeper(one), Keeper(two)
        wanted = Opening("workers", "jobs", THERE, -2)
        await here.exchange.open(wanted)
        assert (here.opened, there.opened) == ([], [wanted])
        with pytest.raises(UnknownTopic):
            await here.exchange.open(Opening("workers", "gone", THERE, -2))
        with pytest.raises(CoordinatorNotAvailable):
            await here.exchange.open(Opening("workers", "jobs", NOWHERE, -2))


async def test_the_log_is_read_from_whoever_leads_it() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        here, there = Keeper(one), Keeper(two)
        for index, keeper in ((HERE, here), (THERE, there)):
            partition = here.places.partitions[index]
            assert await here.exchange.read(partition) == keeper.rows  # type: ignore[arg-type]

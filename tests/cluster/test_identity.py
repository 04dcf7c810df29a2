"""Producer ids of a cluster: blocks that no two brokers share."""

import asyncio

from chordmq.clock import SystemClock
from chordmq.cluster.identity import PRODUCER_ID_BLOCK, Identity
from chordmq.cluster.image import Image
from chordmq.storage.metadata.database import Database
from tests.cluster.unreliable_store import UnreliableStore


async def test_no_two_brokers_get_the_same_block(shared_store: UnreliableStore) -> None:
    brokers = [Identity(await Image.load(shared_store), number) for number in range(4)]
    shared_store.commit_faults = ["lost", "", "unanswered"]

    blocks = await asyncio.gather(*(broker.take_producer_ids() for broker in brokers * 3))

    assert sorted(block.start for block in blocks) == [
        number * PRODUCER_ID_BLOCK for number in range(12)
    ]
    assert len({broker.cluster_id for broker in brokers}) == 1


async def test_blocks_go_on_after_a_restart(database: Database) -> None:
    first = await Identity(Image.local(database, SystemClock()), 0).take_producer_ids()

    again = Identity(Image.local(database, SystemClock()), 0)

    assert await again.take_producer_ids() == range(first.stop, first.stop + PRODUCER_ID_BLOCK)
    assert len(again.cluster_id) == 22

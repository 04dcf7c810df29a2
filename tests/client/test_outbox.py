"""Batches keep their order and their sequence numbers, whatever becomes of them."""

import asyncio

import pytest

from chordmq.client.errors import DeliveryTimedOut
from chordmq.client.outbox import ANONYMOUS, Batch, Delivery, Identity, Lane, size_of
from chordmq.records.batch import read_header
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord


def batch_of(lane: Lane, count: int) -> Batch:
    batch = Batch(lane, 0.0, asyncio.get_running_loop().create_future())
    for number in range(count):
        record = NewRecord(0, None, b"%d" % number)
        batch.add(record, size_of(record))
    batch.is_ripe = True
    lane.queue.append(batch)
    return batch


def sequence(batch: Batch, identity: Identity) -> tuple[int, int]:
    header = read_header(batch.encode(identity, Compression.NONE))
    return header.producer_id, header.base_sequence


async def test_only_one_batch_of_a_partition_is_under_way() -> None:
    lane = Lane("t", 0)
    first, second = batch_of(lane, 1), batch_of(lane, 1)
    assert lane.take_ripe() is first
    assert lane.take_ripe() is None
    lane.finish(first, stored=True)
    assert lane.take_ripe() is second


async def test_sequence_numbers_are_used_up_only_by_what_is_stored() -> None:
    """C3: a refused batch leaves no gap behind which the broker would refuse the next one."""
    identity, lane = Identity(7, 0), Lane("t", 0)
    for stored, expected in ((True, 0), (False, 3), (True, 3), (True, 6)):
        batch = batch_of(lane, 3)
        assert lane.take_ripe() is batch
        assert sequence(batch, identity) == (7, expected)
        lane.finish(batch, stored=stored)


async def test_a_batch_that_may_be_stored_keeps_its_number_under_a_new_identity() -> None:
    """C3: only the same producer id and sequence let the broker see that it is the same batch."""
    old, new, lane = Identity(1, 0), Identity(2, 0), Lane("t", 0)
    batch = batch_of(lane, 2)
    lane.take_ripe()
    assert sequence(batch, old) == (1, 0)
    batch.is_uncertain = True
    assert sequence(batch, new) == (1, 0)
    lane.finish(batch, stored=True)
    following = batch_of(lane, 1)
    assert sequence(following, new) == (2, 0)


async def test_a_batch_that_is_surely_not_stored_takes_the_new_identity() -> None:
    batch = batch_of(Lane("t", 0), 2)
    sequence(batch, Identity(1, 0))
    assert sequence(batch, Identity(2, 0)) == (2, 0)


async def test_without_an_identity_there_is_no_sequence() -> None:
    assert sequence(batch_of(Lane("t", 0), 1), ANONYMOUS) == (-1, -1)


async def test_a_sequence_wraps_where_kafkas_does() -> None:
    identity, lane = Identity(1, 0), Lane("t", 0)
    batch = batch_of(lane, 2)
    lane.take_ripe()
    lane.sequence_for(identity)
    lane._sequence = 2**31 - 1
    sequence(batch, identity)
    lane.finish(batch, stored=True)
    assert lane.sequence_for(identity) == 1


async def test_a_delivery_finds_its_record_in_the_half_of_a_split_batch() -> None:
    lane = Lane("t", 0)
    batch = batch_of(lane, 5)
    deliveries = [Delivery(batch, place) for place in range(5)]
    lane.take_ripe()
    lane.split(batch)
    assert [len(half.records) for half in lane.queue] == [2, 3]
    first, second = lane.queue
    first.done.set_result(10)
    second.done.set_result(40)
    assert [await delivery for delivery in deliveries] == [10, 11, 40, 41, 42]


async def test_a_cancelled_waiter_does_not_cancel_the_others() -> None:
    batch = batch_of(Lane("t", 0), 2)

    async def wait(place: int) -> int:
        return await Delivery(batch, place)

    async with asyncio.TaskGroup() as tasks:
        doomed = tasks.create_task(wait(0))
        patient = tasks.create_task(wait(1))
        await asyncio.sleep(0)
        doomed.cancel()
        await asyncio.sleep(0)
        batch.done.set_result(7)
    assert patient.result() == 8


async def test_a_failure_reaches_every_record_of_the_batch() -> None:
    batch = batch_of(Lane("t", 0), 2)
    batch.done.set_exception(DeliveryTimedOut("too late"))
    for place in range(2):
        with pytest.raises(DeliveryTimedOut):
            await Delivery(batch, place)

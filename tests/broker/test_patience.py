"""Batches that a change of leader gets in the way of: appended again, in their order."""

import asyncio
from typing import Any, cast

import pytest

from chordmq.broker.partition import Partition
from chordmq.broker.patience import Patience
from chordmq.clock import SystemClock
from chordmq.errors import ChordMQError, NotCommittedInTime, NotLeader, UnknownTopic


class Elsewhere:
    """A partition that another node leads; it answers what the test has prepared."""

    def __init__(self, *outcomes: ChordMQError | None) -> None:
        self._outcomes = list(outcomes)
        self.stored: list[bytes] = []
        self.asked = 0

    def forward(self, batch: memoryview) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.asked += 1
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is None:
            self.stored.append(bytes(batch))
            future.set_result(len(self.stored) - 1)
        else:
            future.set_exception(outcome)
        return future


def append(patience: Patience, partition: Any, *batches: bytes) -> list[asyncio.Future[int]]:
    return [patience.append(cast(Partition, partition), memoryview(one)) for one in batches]


async def test_a_batch_goes_to_the_next_leader_and_those_behind_it_wait() -> None:
    """E3, C13: order is kept over a change of leader."""
    partition = Elsewhere(NotCommittedInTime("gone"), NotLeader("an election"))
    patience = Patience(SystemClock())
    first = append(patience, partition, b"1", b"2")
    await asyncio.sleep(0)
    assert patience.holds_up(cast(Partition, partition))
    later = append(patience, partition, b"3")
    assert await asyncio.gather(*first, *later) == [0, 1, 2]
    assert partition.stored == [b"1", b"2", b"3"]
    assert not patience.holds_up(cast(Partition, partition))


async def test_what_no_leader_will_take_is_refused_at_once() -> None:
    partition = Elsewhere(UnknownTopic("deleted"))
    (refused,) = append(Patience(SystemClock()), partition, b"1")
    with pytest.raises(UnknownTopic):
        await refused
    assert partition.asked == 1


async def test_a_batch_that_this_node_could_not_commit_goes_first() -> None:
    partition = Elsewhere()
    patience = Patience(SystemClock())
    again = patience.append_again(cast(Partition, partition), memoryview(b"1"))
    (behind,) = append(patience, partition, b"2")
    assert (await again, await behind) == (0, 1)


async def test_those_behind_the_first_batch_wait_until_a_leader_has_taken_it() -> None:
    """E3, E4: a node that begins to lead refuses one batch, and would take the next."""
    partition = Elsewhere(NotLeader("not yet"))
    patience = Patience(SystemClock())
    first = append(patience, partition, b"1")
    assert patience.holds_up(cast(Partition, partition)), "whoever leads now must not overtake it"
    second = append(patience, partition, b"2")
    assert await asyncio.gather(*first, *second) == [0, 1]
    assert partition.stored == [b"1", b"2"]
    (third,) = append(patience, partition, b"3")
    assert not patience.holds_up(cast(Partition, partition)), "the leader is known to take them"
    assert await third == 2

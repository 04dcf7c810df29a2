"""Batches that a change of leader gets in the way of: appended again, in their order."""

import asyncio
from typing import Any, cast

import pytest

from chordmq.broker import patience as patience_module
from chordmq.broker.partition import Partition
from chordmq.broker.patience import AGAIN_FOR_S, Patience
from chordmq.clock import ManualClock, SystemClock
from chordmq.errors import (
    BatchTooLarge,
    ChordMQError,
    NotCommittedInTime,
    NotEnoughReplicas,
    NotLeader,
    UnknownTopic,
)


class Copy:
    """What a partition knows of the way to its leader."""

    def __init__(self) -> None:
        self.way = object()


class Elsewhere:
    """A partition that another node leads; it answers what the test has prepared."""

    topic, index = "t", 0
    is_leader = False
    is_closed = False
    moved_to: "Elsewhere | None" = None

    def __init__(self, *outcomes: ChordMQError | None) -> None:
        self._outcomes = list(outcomes)
        self.replica: Copy | None = Copy()
        self.stored: list[bytes] = []
        self.asked = 0

    def change_leader(self) -> None:
        self.replica = Copy()

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


class Slow(Elsewhere):
    """One whose leader answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[tuple[bytes, asyncio.Future[int]]] = []

    def forward(self, batch: memoryview) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.under_way.append((bytes(batch), future))
        return future

    @property
    def batches(self) -> list[bytes]:
        """Return what was handed over and is not answered."""
        return [batch for batch, future in self.under_way if not future.done()]

    async def answer(self, batch: bytes, outcome: int | ChordMQError) -> None:
        """Answer what was handed over, and let everybody hear of it."""
        (future,) = (one for known, one in self.under_way if known == batch and not one.done())
        if isinstance(outcome, int):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
        await turns()


async def turns() -> None:
    """Let the loop do all that it can do now."""
    for _ in range(10):
        await asyncio.sleep(0)


async def proven(partition: Slow) -> Patience:
    """Return the patience of a node whose partition's leader has taken a batch."""
    patience = Patience(SystemClock())
    (first,) = append(patience, partition, b"0")
    await turns()
    await partition.answer(b"0", 0)
    assert await first == 0
    return patience


def append(patience: Patience, partition: Any, *batches: bytes) -> list[asyncio.Future[int]]:
    return [patience.append(cast(Partition, partition), memoryview(one)) for one in batches]


def holds_up(patience: Patience, partition: Any) -> bool:
    return patience.holds_up(cast(Partition, partition))


async def test_a_batch_goes_to_the_next_leader_and_those_behind_it_wait() -> None:
    """E3, C13: order is kept over a change of leader."""
    partition = Elsewhere(NotCommittedInTime("gone"), NotLeader("an election"))
    patience = Patience(SystemClock())
    first = append(patience, partition, b"1", b"2")
    await asyncio.sleep(0)
    assert holds_up(patience, partition)
    later = append(patience, partition, b"3")
    assert await asyncio.gather(*first, *later) == [0, 1, 2]
    assert partition.stored == [b"1", b"2", b"3"]
    assert not holds_up(patience, partition)


async def test_what_no_leader_will_take_is_refused_at_once() -> None:
    partition = Elsewhere(UnknownTopic("deleted"))
    (refused,) = append(Patience(SystemClock()), partition, b"1")
    with pytest.raises(UnknownTopic):
        await refused
    assert partition.asked == 1


async def test_what_no_leader_will_take_holds_up_nothing_behind_it() -> None:
    partition = Elsewhere(NotLeader("not yet"), BatchTooLarge("for good"))
    patience = Patience(SystemClock())
    refused, taken = append(patience, partition, b"1", b"2")
    with pytest.raises(BatchTooLarge):
        await refused
    assert await taken == 0
    assert not holds_up(patience, partition)


async def test_a_batch_that_this_node_could_not_commit_goes_first() -> None:
    """E3, E4: also if those behind it hear sooner that another node leads."""
    partition = Elsewhere()
    patience = Patience(SystemClock())
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    again = patience.see_through(cast(Partition, partition), memoryview(b"1"), 7, committed)
    partition.change_leader()
    assert holds_up(patience, partition)
    (behind,) = append(patience, partition, b"2")
    committed.set_exception(NotLeader("another leads"))
    assert (await again, await behind) == (0, 1)


async def test_a_batch_that_is_committed_where_it_was_appended_holds_up_nothing() -> None:
    partition = Elsewhere()
    patience = Patience(SystemClock())
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen = patience.see_through(cast(Partition, partition), memoryview(b"1"), 7, committed)
    assert not holds_up(patience, partition)
    committed.set_result(None)
    assert await seen == 7
    partition.change_leader()
    assert not holds_up(patience, partition)


async def test_a_topic_that_is_deleted_before_a_commit_is_what_its_client_hears_of() -> None:
    partition = Elsewhere()
    patience = Patience(SystemClock())
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen = patience.see_through(cast(Partition, partition), memoryview(b"1"), 7, committed)
    committed.cancel()
    with pytest.raises(UnknownTopic):
        await seen
    assert partition.asked == 0


async def test_those_behind_the_first_batch_wait_until_a_leader_has_taken_it() -> None:
    """E3, E4: a node that begins to lead refuses one batch, and would take the next."""
    partition = Elsewhere(NotLeader("not yet"))
    patience = Patience(SystemClock())
    first = append(patience, partition, b"1")
    assert holds_up(patience, partition), "whoever leads now must not overtake it"
    second = append(patience, partition, b"2")
    assert await asyncio.gather(*first, *second) == [0, 1]
    assert partition.stored == [b"1", b"2"]
    (third,) = append(patience, partition, b"3")
    assert not holds_up(patience, partition), "the leader is known to take them"
    assert await third == 2


async def test_those_that_waited_go_together_once_a_leader_has_taken_the_first() -> None:
    """C14: one at a time, a queue would never end whose clients send on when they are answered."""
    partition = Slow()
    patience = await proven(partition)
    partition.change_leader()
    append(patience, partition, b"1", b"2", b"3")
    await turns()
    assert partition.batches == [b"1"]
    await partition.answer(b"1", 1)
    assert partition.batches == [b"2", b"3"]
    append(patience, partition, b"4")
    assert partition.batches == [b"2", b"3", b"4"]


async def test_nothing_is_handed_to_the_next_leader_while_the_last_has_not_answered() -> None:
    """E3, E4: also if that is this node, which could append at once."""
    partition = Slow()
    patience = await proven(partition)
    append(patience, partition, b"1", b"2")
    partition.change_leader()
    partition.is_leader = True
    assert holds_up(patience, partition)
    append(patience, partition, b"3")
    await turns()
    await partition.answer(b"1", 1)
    assert partition.batches == [b"2"]
    await partition.answer(b"2", NotLeader("not any more"))
    assert partition.batches == [b"2"], "what was taken is not appended again"
    await partition.answer(b"2", 2)
    assert partition.batches == [b"3"]
    await partition.answer(b"3", 3)
    assert not holds_up(patience, partition)


async def test_refused_batches_go_again_in_the_order_in_which_they_were_sent() -> None:
    """E3, E4: the second may be refused first, where there was no link for it any more."""
    partition = Slow()
    patience = await proven(partition)
    append(patience, partition, b"1", b"2")
    await partition.answer(b"2", NotCommittedInTime("no link"))
    append(patience, partition, b"3")
    assert partition.batches == [b"1"]
    await partition.answer(b"1", NotCommittedInTime("the link has ended"))
    assert partition.batches == [b"1"]
    await partition.answer(b"1", 1)
    assert partition.batches == [b"2", b"3"]


async def test_what_this_node_refuses_for_now_is_not_overtaken_where_it_leads() -> None:
    partition = Elsewhere(NotEnoughReplicas("one is away"))
    partition.is_leader = True
    patience = Patience(SystemClock())
    (first,) = append(patience, partition, b"1")
    assert holds_up(patience, partition)
    (second,) = append(patience, partition, b"2")
    assert (await first, await second) == (0, 1)
    assert not holds_up(patience, partition)


async def test_a_deleted_topic_ends_what_waits_for_it() -> None:
    partition = Elsewhere(NotLeader("nobody"))
    patience = Patience(SystemClock())
    waiting = append(patience, partition, b"1", b"2")
    await turns()
    partition.is_closed = True
    for future in waiting:
        with pytest.raises(UnknownTopic):
            await future
    assert partition.asked == 1
    assert not holds_up(patience, partition)


async def test_what_waits_follows_a_partition_whose_copy_has_come_to_this_node() -> None:
    """E3, E4: another object stands for it, which alone hears who leads."""
    before, after = Elsewhere(NotLeader("an election")), Elsewhere()
    patience = Patience(SystemClock())
    (first,) = append(patience, before, b"1")
    await turns()
    before.is_closed, before.moved_to = True, after
    after.is_leader = True
    assert holds_up(patience, after), "it must not overtake what came before the copy"
    (second,) = append(patience, after, b"2")
    assert (await first, await second) == (0, 1)
    assert after.stored == [b"1", b"2"]


async def test_all_whose_time_is_over_are_refused_with_the_first() -> None:
    """E4: or each would be tried for half a minute of its own."""
    clock = ManualClock()
    partition = Slow()
    patience = Patience(clock)
    waiting = append(patience, partition, b"1", b"2")
    await turns()
    clock.advance(int(AGAIN_FOR_S * 1000) + 1)
    (young,) = append(patience, partition, b"3")
    await partition.answer(b"1", NotLeader("nobody"))
    for future in waiting:
        assert isinstance(future.exception(), NotLeader)
    assert partition.batches == [b"3"]
    await partition.answer(b"3", 0)
    assert await young == 0


async def test_nobody_waits_for_ever_behind_what_is_never_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience_module, "AGAIN_FOR_S", 0.01)
    partition = Elsewhere()
    partition.is_leader = True
    patience = Patience(SystemClock())
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen = patience.see_through(cast(Partition, partition), memoryview(b"1"), 7, committed)
    (behind,) = append(patience, partition, b"2")
    with pytest.raises(NotCommittedInTime):
        await asyncio.wait_for(behind, 60)
    committed.set_result(None)
    assert await seen == 7
    await turns()
    assert not holds_up(patience, partition)


def test_all_who_wait_hear_that_the_node_stops() -> None:
    partition = Slow()

    async def begin() -> list[asyncio.Future[int]]:
        patience = await proven(partition)
        under_way = append(patience, partition, b"1")
        partition.change_leader()
        waiting = append(patience, partition, b"2")
        await turns()
        return under_way + waiting

    with asyncio.Runner() as runner:
        futures = runner.run(begin())
    assert [type(one.exception()) for one in futures] == [NotLeader, NotLeader]


async def test_a_node_alone_holds_up_nothing() -> None:
    partition = Elsewhere()
    partition.replica = None
    assert not holds_up(Patience(SystemClock()), partition)

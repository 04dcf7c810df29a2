"""Proves over real links that nodes without a copy read records as their leader has them."""

from pathlib import Path

import pytest

from chordmq.broker.feed import Gap
from chordmq.errors import OffsetOutOfRange
from chordmq.records.batch import TRANSACTIONAL
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.tail import Tail
from tests.broker.elsewhere import elsewhere
from tests.broker.replicated import batch, until
from tests.cold_disk import Disk


async def test_a_reader_gets_what_is_there_and_then_what_comes(tmp_path: Path) -> None:
    """A4: without polling: the question waits where the records are."""
    async with elsewhere(tmp_path, (1, 2)) as both:
        [reading] = both.readings
        both.leader.append(batch(b"a", b"b"))
        assert await reading.read(2) == [b"a", b"b"]
        reading.look()
        await until(lambda: both.waiting() == 1)
        both.leader.append(batch(b"c"))
        assert await reading.read(3) == [b"a", b"b", b"c"]


async def test_a_reader_elsewhere_gets_what_only_the_disk_of_the_leader_has(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2, A4: the leader waits for its disk in a thread, whatever is written meanwhile."""
    monkeypatch.setattr(Tail, "add", lambda *_, **__: None)
    async with elsewhere(tmp_path, (1,)) as both:
        reading = both.readings[0]
        leading = both.copies.nodes[1].shared.read_ahead
        both.leader.append(batch(b"a"))
        reading.look()
        await until(lambda: leading.fetched > 0)
        both.leader.append(batch(b"b"))
        await until(lambda: both.leader.high_watermark == 2)
        assert not reading.values
        disk.may_go_on.set()
        assert await reading.read(2) == [b"a", b"b"]
        assert leading.fetched == 1


async def test_a_change_of_leader_neither_loses_nor_repeats(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1, 2)) as both:
        [reading] = both.readings
        both.leader.append(batch(b"a"))
        assert await reading.read(1) == [b"a"]
        reading.look()
        both.leader.append(batch(b"b"))
        await until(lambda: both.copies.nodes[2].partition.high_watermark == 2)
        await both.elect(2)
        await until(lambda: both.leader.is_leader)
        both.leader.append(batch(b"c"))
        assert await reading.read(3) == [b"a", b"b", b"c"]


async def test_a_link_that_breaks_is_waited_for(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        reading = both.readings[1]
        both.leader.append(batch(b"a"))
        assert await reading.read(1) == [b"a"]
        reading.look()
        await both.copies.isolate(1)
        both.leader.append(batch(b"b"))
        await both.copies.reconnect(1)
        assert await reading.read(2) == [b"a", b"b"]


async def test_only_transactions_that_were_committed_are_seen(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        reading = both.readings[0]
        for producer, value, is_commit in ((7, b"no", False), (7, b"yes", True), (8, b"no", False)):
            records = [NewRecord(0, None, value)]
            sequence = 0 if value == b"no" else 1
            data = build_batch(
                records, flags=TRANSACTIONAL, producer_id=producer, epoch=0, sequence=sequence
            )
            both.leader.append(memoryview(data), is_enlisted=True)
            both.leader.append_marker(Marker(producer, 0, is_commit=is_commit))
        both.leader.append(batch(b"plain"))
        assert await reading.read(2) == [b"yes", b"plain"]
        reading.feed.offsets[0] = 2  # in the midst of what is kept here
        reading.values.clear()
        assert await reading.read(2) == [b"yes", b"plain"]


async def test_offsets_that_the_log_does_not_have_are_a_gap(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        reading = both.readings[0]
        both.leader.append(batch(b"a", b"b"))
        await until(lambda: both.leader.high_watermark == 2)
        reading.feed.offsets[0] = 50
        with pytest.raises(OffsetOutOfRange):
            await reading.read(1)
        assert reading.feed.skip_gaps() == [Gap(0, 50, 2)]
        await both.leader.delete_records(1)
        reading.feed.offsets[0] = 0
        with pytest.raises(OffsetOutOfRange):
            await reading.read(1)
        assert reading.feed.skip_gaps() == [Gap(0, 0, 1)]
        assert await reading.read(1) == [b"b"]


async def test_nobody_is_asked_when_nobody_reads(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        reading = both.readings[0]
        reading.look()
        await until(lambda: both.waiting() == 1)
        reading.feed.close()
        await until(lambda: both.waiting() == 0)

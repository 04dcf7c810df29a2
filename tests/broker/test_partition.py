"""A partition takes, commits and serves batches."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.joint_run import PIECES_MAX
from chordmq.broker.partition import SNAPSHOT_BYTES, Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Appended
from chordmq.clock import SystemClock
from chordmq.errors import (
    BatchTooLarge,
    ChordMQError,
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownTopic,
)
from chordmq.records.batch import COMPRESSION_MASK, CONTROL, read_header
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch, read_records


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    yield broker
    broker.close()


async def made(broker: Broker, **settings: str) -> Partition:
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    topic = await broker.topics.create("t", 1, 1, texts)
    return topic.partitions[0]


def batch(*values: bytes, key: bytes | None = None, producer: int = -1, sequence: int = -1,
          compression: Compression = Compression.NONE, flags: int = 0, time: int | None = None,
          ) -> memoryview:  # fmt: skip
    now = SystemClock().now_ms() if time is None else time
    records = [NewRecord(now, key, value) for value in values]
    epoch = -1 if producer < 0 else 0
    return memoryview(
        build_batch(records, compression=compression, flags=flags, producer_id=producer,
                    epoch=epoch, sequence=sequence)
    )  # fmt: skip


def values(buffers: list[memoryview]) -> list[bytes | None]:
    return [record.value for buffer in buffers for record in read_records(buffer)]


class Sleeper:
    """A reader that waits."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def wake(self) -> None:
        self.woken.set()


async def test_with_flush_disk_nobody_sees_a_record_before_it_is_on_disk(broker: Broker) -> None:
    """D5: acknowledged means on disk, and so does visible."""
    partition = await made(broker, flush="disk")
    appended = partition.append(batch(b"a", b"b"))
    assert (appended.base_offset, appended.next_offset) == (0, 2)
    assert partition.high_watermark == 0
    assert partition.read(0, 1000) == []
    committed = partition.committed(2)
    assert committed is not None
    await committed
    assert partition.log.flushed_offset == 2
    assert values(partition.read(0, 1000)) == [b"a", b"b"]


SENT = st.tuples(st.sampled_from([-1, 1, 2]), st.integers(0, 1), st.integers(0, 5), st.booleans())


@given(sent=st.lists(SENT, max_size=12), turns=st.lists(st.integers(1, 6), min_size=12))
async def test_batches_appended_together_are_treated_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[int, int, int, bool]],
    turns: list[int],
) -> None:
    """C3: repeated, missing and new sequence numbers of several producers, large and small."""
    broker = Broker(tmp_path_factory.mktemp("b"), BrokerSettings(), SystemClock(), Flusher())
    try:
        one, other = (await broker.topics.create("t", 2, 1, {"flush": "os"})).partitions
        batches = []
        for number, (producer, epoch, sequence, is_large) in enumerate(sent):
            value = b"%d" % number * (20_000 if is_large else 1)
            batches.append(
                build_batch(
                    [NewRecord(SystemClock().now_ms(), None, value)],
                    producer_id=producer,
                    epoch=epoch if producer > 0 else -1,
                    sequence=sequence if producer > 0 else -1,
                )
            )
        expected = [outcome(one, bytearray(data)) for data in batches]
        found: list[Appended | type[ChordMQError]] = []
        for turn in turns:
            some, batches = batches[:turn], batches[turn:]
            lent = [memoryview(data) for data in some]
            results = other.append_together(lent, is_quorum_needed=True)
            found += [type(r) if isinstance(r, ChordMQError) else r for r in results]
            for data in some:
                data[:] = bytes(len(data))  # it was only lent
        assert found == expected
        assert [*other.log.scan(0)] == [*one.log.scan(0)]
        in_files = b"".join(batch for _, batch in other.log.scan(0))
        assert b"".join(other.log.read(0, 1 << 30)) == in_files  # memory has the same
        assert other.producers.snapshot() == one.producers.snapshot()
    finally:
        broker.close()


async def test_more_batches_than_the_kernel_writes_by_one_call_are_appended(
    broker: Broker,
) -> None:
    """C5: small as they came, large as they are stored."""
    partition = await made(broker, compression_type="uncompressed", flush="os")
    count = PIECES_MAX + 1
    batches = [batch(b"x" * 20_000, compression=Compression.GZIP) for _ in range(count)]
    results = partition.append_together(batches, is_quorum_needed=True)
    assert [result.base_offset for result in results if isinstance(result, Appended)] == [
        *range(count)
    ]
    assert len([*partition.log.scan(0)]) == count


def outcome(partition: Partition, data: bytearray) -> Appended | type[ChordMQError]:
    try:
        return partition.append(memoryview(data))
    except ChordMQError as error:
        return type(error)


async def test_with_flush_os_a_record_is_visible_after_the_write(broker: Broker) -> None:
    partition = await made(broker, flush="os")
    partition.append(batch(b"a"))
    assert partition.committed(1) is None
    assert values(partition.read(0, 1000)) == [b"a"]


async def test_one_flush_serves_all_that_was_written_before_it(broker: Broker) -> None:
    """D5: a hundred writers that arrive together do not wait for a hundred flushes."""
    partition = await made(broker, flush="disk")
    waits = [partition.committed(partition.append(batch(b"x")).next_offset) for _ in range(100)]
    await asyncio.gather(*(wait for wait in waits if wait is not None))
    assert partition.high_watermark == 100
    assert broker.shared.flusher.flushes <= 3


async def test_a_waiting_reader_is_woken_by_the_commit(broker: Broker) -> None:
    """C6: new data reaches a reader who waits, without polling."""
    partition = await made(broker)
    reader = Sleeper()
    partition.wait(reader)
    partition.append(batch(b"a"))
    await asyncio.wait_for(reader.woken.wait(), 60)
    assert values(partition.read(0, 1000)) == [b"a"]


async def test_an_offset_inside_a_batch_gives_the_whole_batch(broker: Broker) -> None:
    """C6: consumers cut off what they do not want; half a batch cannot be read."""
    partition = await made(broker, flush="os")
    partition.append(batch(b"a", b"b", b"c"))
    assert values(partition.read(2, 1)) == [b"a", b"b", b"c"]


async def test_offsets_outside_the_log_are_refused(broker: Broker) -> None:
    """C6: OFFSET_OUT_OF_RANGE, and nothing at the very end."""
    partition = await made(broker, flush="os")
    partition.append(batch(b"a"))
    assert partition.read(1, 1000) == []
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            partition.read(offset, 1000)


async def test_a_repeated_batch_is_stored_once_also_after_a_restart(tmp_path: Path) -> None:
    """C3: sequence numbers survive a restart."""
    for _ in range(3):
        broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
        topic = broker.topics.find("t") or await broker.topics.create("t", 1, 1, {"flush": "os"})
        assert (
            topic.partitions[0].append(batch(b"a", b"b", producer=9, sequence=0)).base_offset == 0
        )
        assert topic.partitions[0].log.end_offset == 2
        broker.close()


async def test_a_flipped_bit_is_refused(broker: Broker) -> None:
    """D4: the checksum is checked on write."""
    partition = await made(broker)
    damaged = batch(b"precious")
    damaged[-3] ^= 1
    with pytest.raises(CorruptBatch):
        partition.append(damaged)
    assert partition.log.end_offset == 0


async def test_what_breaks_the_topics_rules_is_refused(broker: Broker) -> None:
    """C7: max.message.bytes, compaction's keys, times, and batches only the broker may write."""
    partition = await made(broker, max_message_bytes="200", cleanup_policy="compact")
    with pytest.raises(BatchTooLarge):
        partition.append(batch(b"x" * 300, key=b"k"))
    with pytest.raises(InvalidRecord, match="key"):
        partition.append(batch(b"x"))
    with pytest.raises(InvalidTimestamp):
        partition.append(batch(b"x", key=b"k", time=SystemClock().now_ms() + 7_200_000))
    with pytest.raises(InvalidRecord, match="control"):
        partition.append(batch(b"x", key=b"k", flags=CONTROL))
    with pytest.raises(InvalidRecord, match="more than one"):
        partition.append(memoryview(bytes(batch(b"x", key=b"k")) + bytes(batch(b"y", key=b"k"))))
    with pytest.raises(CorruptBatch):
        partition.append(batch(b"x", key=b"k")[:-1])


@pytest.mark.parametrize("stored", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
async def test_a_topic_may_ask_for_its_own_compression(broker: Broker, stored: str) -> None:
    """C5: recompressed only when compression.type says so."""
    partition = await made(broker, flush="os", compression_type=stored)
    partition.append(batch(b"a" * 500, compression=Compression.LZ4))
    [buffer] = partition.read(0, 10_000)
    expected = Compression.NONE if stored == "uncompressed" else Compression[stored.upper()]
    assert read_header(buffer).attributes & COMPRESSION_MASK == expected
    assert values([buffer]) == [b"a" * 500]


@pytest.mark.parametrize("sent", list(Compression))
async def test_by_default_a_batch_is_stored_as_received(broker: Broker, sent: Compression) -> None:
    """C5: byte for byte, but for offset and epoch, which lie before the checksum."""
    partition = await made(broker, flush="os")
    original = bytes(batch(b"a" * 500, compression=sent))
    partition.append(memoryview(bytearray(original)))
    [buffer] = partition.read(0, 10_000)
    assert bytes(buffer)[16:] == original[16:]


async def test_the_brokers_time_replaces_the_producers_if_the_topic_says_so(
    broker: Broker,
) -> None:
    """C7: message.timestamp.type=LogAppendTime."""
    partition = await made(broker, flush="os", message_timestamp_type="LogAppendTime")
    appended = partition.append(batch(b"a", time=5))
    [buffer] = partition.read(0, 10_000)
    [record] = read_records(buffer)
    assert record.timestamp == appended.append_time_ms > 1_000_000


async def test_a_full_disk_refuses_writes_and_serves_reads(broker: Broker) -> None:
    """C11: reads go on."""
    partition = await made(broker, flush="os")
    partition.append(batch(b"a"))
    broker.shared.full = "9 bytes are left"
    with pytest.raises(DiskFull, match="9 bytes"):
        partition.append(batch(b"b"))
    assert values(partition.read(0, 1000)) == [b"a"]


async def test_a_write_that_the_disk_refuses_is_logged_but_not_for_every_batch(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C11: whoever runs the node learns of it, not only the producers."""
    partition = await made(broker, flush="os")

    def refuse(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        for _ in range(3):
            with pytest.raises(DiskFull):
                partition.append(batch(b"a"))
    assert caplog.messages == ["write failed"]


async def test_epochs_other_than_the_leaders_are_fenced(broker: Broker) -> None:
    partition = await made(broker)
    partition.leader_epoch = 5
    partition.check_epoch(-1)
    partition.check_epoch(5)
    with pytest.raises(FencedLeaderEpoch):
        partition.check_epoch(4)
    with pytest.raises(UnknownLeaderEpoch):
        partition.check_epoch(6)


async def test_after_a_failed_write_the_next_batches_fail_like_it_and_do_not_seem_a_gap(
    broker: Broker,
) -> None:
    """A client that hears of a gap sends anew what others of its partitions may have stored."""
    partition = await made(broker)
    partition.append(batch(b"a", producer=9, sequence=0))
    partition.log.fault = "the disk is broken"
    for sequence in (1, 2):
        with pytest.raises(StorageFailed, match="broken"):
            partition.append(batch(b"b", producer=9, sequence=sequence))
    partition.log.fault = ""
    assert partition.append(batch(b"b", producer=9, sequence=1)).base_offset == 1


async def test_deleting_a_topic_wakes_readers_and_lets_producers_know(broker: Broker) -> None:
    partition = await made(broker, flush="disk")
    reader = Sleeper()
    partition.wait(reader)
    partition.append(batch(b"a"))
    committed = partition.committed(1)
    assert committed is not None
    await broker.topics.delete("t")
    assert reader.woken.is_set()
    assert committed.done()
    with pytest.raises(UnknownTopic):
        partition.append(batch(b"b"))


async def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    """C3: not even after a restart."""
    given = []
    for _ in range(2):
        broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
        given += [await broker.new_producer_id() for _ in range(1100)]
        broker.close()
    assert len(set(given)) == len(given)


async def test_a_start_after_a_clean_end_reads_no_batches_again(tmp_path: Path) -> None:
    """D5: the time of a start does not grow with the log, also without idempotent producers."""
    read = []
    for _ in range(2):
        broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
        topic = broker.topics.find("t") or await broker.topics.create("t", 1, 1, {"flush": "os"})
        [partition] = topic.partitions
        read.append(partition._unsaved_bytes)
        while partition.log.size < 2 * SNAPSHOT_BYTES:
            partition.append(batch(b"x" * 500_000))
        broker.close()
    assert read == [0, 0]

"""Segment files read where they lie give what the broker gives, and never anything else."""

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from chordmq.client.admin import Admin
from chordmq.client.bulk import Bulk, BulkSettings, Fetched, OffsetRange
from chordmq.client.cluster import Cluster
from chordmq.client.segments import logs_in_sight, read_segments
from chordmq.client.transaction import Transaction
from chordmq.records.columns import read_columns
from chordmq.records.record import NewRecord
from tests.archive.test_archiver import fill, rows
from tests.running_node import RunningNode

SMALL_SEGMENTS = {"segment.bytes": str(2**20)}
PAD = b"x" * 10_000


def values(chunks: Iterable[Fetched], part: OffsetRange) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for data, visible in chunks:
        names = ("offset", "value")
        for columns in read_columns(data, visible.batches, names, start=part.start, stop=part.stop):
            arrays = [columns.arrays[name].to_pylist() for name in names]
            found += zip(*arrays, strict=True)
    return found


def transact(node: RunningNode, name: str, *, aborted: bool) -> None:
    """Append one record in a transaction, which is aborted or left open."""

    async def append() -> None:
        cluster = Cluster(node.bootstrap)
        await cluster.open()
        transaction = await Transaction(cluster, name).__aenter__()
        await transaction.append(name, [NewRecord(0, None, b"never")])
        if aborted:
            await transaction.end(committed=False)
        cluster.close()

    asyncio.run(append())


@pytest.fixture
def files(node: RunningNode, name: str, tmp_path: Path) -> Path:
    """Give a copy of the directory of a topic whose only partition lies in several files."""

    async def create() -> None:
        async with Admin(node.bootstrap) as admin:
            await admin.create_topic(name, 1, settings=SMALL_SEGMENTS)

    asyncio.run(create())
    for start in range(0, 600, 20):
        fill(node, name, [one._replace(value=PAD) for one in rows(20, start=start)])
    shutil.copytree(node.data / "topics" / f"{name}-0", tmp_path / f"{name}-0")
    return tmp_path


def test_files_have_what_the_broker_sends(node: RunningNode, name: str, files: Path) -> None:
    """P2: any range, over the borders of files, found by their sparse indexes."""
    assert len(list(files.rglob("*.log"))) > 3
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        for start, stop in [(0, 600), (17, 18), (123, 456), (599, 600)]:
            part = OffsetRange(name, 0, start, stop)
            found = values(read_segments(files, part), part)
            assert found == values(broker.fetch(part), part)
            assert [offset for offset, _ in found] == list(range(start, stop))


def test_a_damaged_or_missing_file_ends_the_reading_before_it(name: str, files: Path) -> None:
    """D4: a batch whose checksum is wrong is never handed out; the broker is asked instead."""
    part = OffsetRange(name, 0, 0, 600)
    second, third = sorted(files.rglob("*.log"))[1:3]
    data = bytearray(third.read_bytes())
    data[100] ^= 1
    third.write_bytes(data)
    assert len(values(read_segments(files, part), part)) == int(third.stem)
    second.unlink()
    assert len(values(read_segments(files, part), part)) == int(second.stem)
    assert list(read_segments(files / "elsewhere", part)) == []


def test_what_belongs_to_a_transaction_is_left_to_the_broker(node: RunningNode, name: str) -> None:
    """C3: no file says which transactions were aborted."""
    fill(node, name, rows(10), partitions=1)
    transact(node, name, aborted=True)
    part = OffsetRange(name, 0, 0, 12)
    assert len(values(read_segments(node.data / "topics", part), part)) == 10
    whole = values(read_segments(node.data / "topics", part, committed=False), part)
    assert whole[-1] == (10, b"never")


def test_an_index_that_lies_is_not_followed(name: str, files: Path) -> None:
    part = OffsetRange(name, 0, 300, 600)
    for log in files.rglob("*.log"):
        log.with_suffix(".index").write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x07" * 3)
    found = values(read_segments(files, part), part)
    assert [offset for offset, _ in found] == list(range(300, 600))


def test_a_chunk_holds_as_many_batches_as_there_is_room_for(name: str, files: Path) -> None:
    """P2: memory is bounded; a batch that is larger than the room is left to the broker."""
    part = OffsetRange(name, 0, 5, 595)
    chunks = read_segments(files, part, chunk_bytes=2**19)
    assert [offset for offset, _ in values(chunks, part)] == list(range(5, 595))
    assert list(read_segments(files, part, chunk_bytes=2**14)) == []


def test_the_files_of_a_node_on_this_machine_are_found_by_asking_it(
    node: RunningNode, name: str
) -> None:
    """P2: and only as far as the broker lets this reader read."""
    fill(node, name, rows(10), partitions=1)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        assert logs_in_sight(broker, OffsetRange(name, 0, 0, 10)) == node.data / "topics"
        assert logs_in_sight(broker, OffsetRange(name, 0, 0, 11)) is None, "past the end"
        transact(node, name, aborted=False)
        assert logs_in_sight(broker, OffsetRange(name, 0, 0, 11)) is None, "not committed yet"
        assert logs_in_sight(broker, OffsetRange(name, 0, 0, 10)) is not None
        assert logs_in_sight(broker, OffsetRange("unknown", 0, 0, 1)) is None


def test_files_that_are_not_those_of_the_leader_are_not_read(
    node: RunningNode, name: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: a directory of the same name elsewhere, an older copy, or one of another cluster."""
    part = OffsetRange(name, 0, 0, 600)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        monkeypatch.setattr(broker, "logs_of", lambda *_: str(files))
        assert logs_in_sight(broker, part) == files, "a copy is as good"
        last = max(files.rglob("*.log"))
        data = last.read_bytes()
        last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert logs_in_sight(broker, part) is None
        last.write_bytes(data[: len(data) // 2])
        assert logs_in_sight(broker, part) is None
        for log in files.rglob("*.log"):
            log.unlink()
        assert logs_in_sight(broker, part) is None
        monkeypatch.setattr(broker, "logs_of", lambda *_: str(files / "elsewhere"))
        assert logs_in_sight(broker, part) is None

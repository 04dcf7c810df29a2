"""Segment files read where they lie give what the broker gives, and never anything else."""

import asyncio
import shutil
from pathlib import Path

import pytest

from chordmq.client.admin import Admin
from chordmq.client.bulk import Bulk, BulkSettings, Fetched, OffsetRange
from chordmq.client.cluster import Cluster
from chordmq.client.segments import read_segments
from chordmq.client.transaction import Transaction
from chordmq.records.columns import read_columns
from chordmq.records.record import NewRecord
from tests.archive.test_archiver import fill, rows
from tests.running_node import RunningNode

SMALL_SEGMENTS = {"segment.bytes": str(2**20)}
PAD = b"x" * 10_000


def values(chunks: list[Fetched], part: OffsetRange) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for data, visible in chunks:
        columns = read_columns(
            data, visible.batches, ["offset", "value"], start=part.start, stop=part.stop
        )
        found += zip(*(one.to_pylist() for one in columns.arrays.values()), strict=True)
    return found


@pytest.fixture
def files(node: RunningNode, name: str, tmp_path: Path) -> Path:
    """Give a copy of the directory of a topic whose only partition lies in several files."""

    async def create() -> None:
        async with Admin(node.bootstrap) as admin:
            await admin.create_topic(name, 1, settings=SMALL_SEGMENTS)

    asyncio.run(create())
    for start in range(0, 600, 20):
        fill(node, name, [one._replace(value=PAD) for one in rows(20, start=start)])
    shutil.copytree(node.data / "topics" / f"{name}-0", tmp_path / "topics" / f"{name}-0")
    return tmp_path


def test_files_have_what_the_broker_sends(node: RunningNode, name: str, files: Path) -> None:
    """P2: any range, over the borders of files, found by their sparse indexes."""
    assert len(list(files.rglob("*.log"))) > 3
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        for start, stop in [(0, 600), (17, 18), (123, 456), (599, 600)]:
            part = OffsetRange(name, 0, start, stop)
            found = values(list(read_segments(files, part)), part)
            assert found == values(list(broker.fetch(part)), part)
            assert [offset for offset, _ in found] == list(range(start, stop))


def test_a_damaged_or_missing_file_ends_the_reading_before_it(name: str, files: Path) -> None:
    """D4: a batch whose checksum is wrong is never handed out; the broker is asked instead."""
    part = OffsetRange(name, 0, 0, 600)
    second, third = sorted(files.rglob("*.log"))[1:3]
    data = bytearray(third.read_bytes())
    data[100] ^= 1
    third.write_bytes(data)
    assert len(values(list(read_segments(files, part)), part)) == int(third.stem)
    second.unlink()
    assert len(values(list(read_segments(files, part)), part)) == int(second.stem)
    assert list(read_segments(files / "elsewhere", part)) == []


def test_what_belongs_to_a_transaction_is_left_to_the_broker(node: RunningNode, name: str) -> None:
    """C3: no file says which transactions were aborted."""
    fill(node, name, rows(10), partitions=1)

    async def transact() -> None:
        cluster = Cluster(node.bootstrap)
        await cluster.open()
        aborted = await Transaction(cluster, name).__aenter__()
        await aborted.append(name, [NewRecord(0, None, b"never")])
        await aborted.end(committed=False)
        cluster.close()

    asyncio.run(transact())
    part = OffsetRange(name, 0, 0, 12)
    assert len(values(list(read_segments(node.data, part)), part)) == 10
    whole = values(list(read_segments(node.data, part, committed=False)), part)
    assert whole[-1] == (10, b"never")


def test_an_index_that_lies_is_not_followed(name: str, files: Path) -> None:
    part = OffsetRange(name, 0, 300, 600)
    for log in files.rglob("*.log"):
        log.with_suffix(".index").write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x07" * 3)
    found = values(list(read_segments(files, part)), part)
    assert [offset for offset, _ in found] == list(range(300, 600))

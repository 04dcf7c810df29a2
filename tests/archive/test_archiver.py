"""Topics of a real node into Parquet files and back."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chordmq.archive.archiver import Archiver
from chordmq.archive.replay import Wanted, archived, replay
from chordmq.archive.table import Archive
from chordmq.client.admin import Admin
from chordmq.client.bulk import Bulk, BulkSettings
from chordmq.client.cluster import Cluster
from chordmq.client.offsets import EARLIEST_TIME
from chordmq.client.producer import Producer
from chordmq.client.transaction import Transaction
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord
from tests.cli.command_line import ENVIRONMENT
from tests.running_node import RunningNode

DAY_MS = 24 * 3600 * 1000
NOW_MS = SystemClock().now_ms()

DIE_HALFWAY = """
import os, signal, sys
from pathlib import Path
from chordmq.archive.archiver import Archiver
from chordmq.archive.table import Archive
from chordmq.client.bulk import Bulk, BulkSettings

def stop(*_: object) -> None:
    print("files are written", flush=True)
    sys.stdin.read()

Archive.add = stop
bootstrap, directory, topic = sys.argv[1:]
with Bulk(BulkSettings(bootstrap=bootstrap)) as broker:
    Archiver(broker, Archive(Path(directory))).archive(topic)
"""
"""An archiver that never gets to say which files it has written."""


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    found = Archive(tmp_path / "archive")
    yield found
    found.close()


def fill(node: RunningNode, topic: str, records: list[NewRecord], partitions: int = 2) -> None:
    async def produce() -> None:
        async with Admin(node.bootstrap) as admin:
            if topic not in {one.name for one in await admin.topics()}:
                await admin.create_topic(topic, partitions)
        async with Producer(node.bootstrap) as producer:
            await producer.enqueue_all(topic, records)

    asyncio.run(produce())


def rows(count: int, start: int = 0) -> list[NewRecord]:
    return [
        NewRecord(NOW_MS - (i % 2) * DAY_MS, b"k%d" % (i % 5), b"%d" % i, (("n", b"%d" % i),))
        for i in range(start, start + count)
    ]


def stored(archive: Archive, topic: str) -> list[int]:
    tables = [pq.read_table(path) for path in archive.files(topic).paths]
    return sorted(int(value) for table in tables for value in table["value"].to_pylist())


def test_every_record_is_archived_once_over_several_rounds(
    node: RunningNode, name: str, archive: Archive
) -> None:
    """P5, A6: partitioned by topic and date, each round goes on where the last one ended."""
    fill(node, name, rows(50))
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        archiver = Archiver(broker, archive, rows_max=7)
        assert archiver.archive(name).records == 50
        assert archiver.archive(name).records == 0
        fill(node, name, rows(30, start=50))
        assert archiver.archive(name).records == 30
    assert stored(archive, name) == list(range(80))
    assert archive.topics() == [name]
    days = {path.name for path in archive.folder(name).iterdir()}
    assert len(days) == 2
    assert all(day.startswith("date=") for day in days)


def test_a_crash_between_files_and_table_repeats_nothing(
    node: RunningNode, name: str, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5, P6: files that no snapshot names are removed, and their range is written again."""
    fill(node, name, rows(40))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        archiver = Archiver(broker, archive)
        with monkeypatch.context() as patched:
            patched.setattr(Archive, "add", die)
            with pytest.raises(KeyboardInterrupt):
                archiver.archive(name)
        assert list(archive.folder(name).rglob("*.parquet"))
        assert stored(archive, name) == []
        fill(node, name, rows(10, start=40))
        archiver.archive(name)
    assert stored(archive, name) == list(range(50))
    assert len(list(archive.folder(name).rglob("*.parquet*"))) == len(archive.files(name).paths)


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python beside the test, and kill it if it has not ended after."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *command], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def test_a_second_archiver_waits_for_the_first_and_takes_over_when_that_is_killed(
    node: RunningNode, name: str, archive: Archive
) -> None:
    """P5, P6: two on one topic neither remove each other's files nor archive a record twice."""
    fill(node, name, rows(40))
    where = (node.bootstrap, str(archive.directory))
    with process("-c", DIE_HALFWAY, *where, name) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "files are written\n", first.communicate()
        written = list(archive.folder(name).rglob("*.parquet"))
        options = ("--bootstrap", where[0], "--directory", where[1])
        with process("-m", "chordmq", "archive", "run", name, *options) as second:
            assert second.stderr is not None
            assert f"waiting for process {first.pid}" in second.stderr.readline()
            assert all(path.exists() for path in written)
            first.send_signal(signal.SIGKILL)
            _, told = second.communicate(timeout=60)
            assert second.returncode == 0, told
    assert stored(archive, name) == list(range(40))
    assert len(list(archive.folder(name).rglob("*.parquet*"))) == len(archive.files(name).paths)


def test_what_a_transaction_took_back_is_not_archived(
    node: RunningNode, name: str, archive: Archive
) -> None:
    async def produce() -> None:
        cluster = Cluster(node.bootstrap)
        await cluster.open()
        aborted = await Transaction(cluster, name).__aenter__()
        await aborted.append(name, rows(5))
        await aborted.end(committed=False)
        async with Transaction(cluster, name) as kept:
            await kept.append(name, rows(5, start=5))
        cluster.close()

    asyncio.run(produce())
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        Archiver(broker, archive).archive(name)
    assert stored(archive, name) == [5, 6, 7, 8, 9]


def test_a_log_is_cut_only_where_the_archive_has_been(
    node: RunningNode, name: str, archive: Archive
) -> None:
    """P5, A6: what is archived and old enough is deleted; what the archive has not stays."""
    fill(node, name, [NewRecord(NOW_MS - 3 * DAY_MS, None, b"%d" % i) for i in range(30)], 1)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        archiver = Archiver(broker, archive)
        assert archiver.trim(name, 0) == {}, "nothing is archived"
        archiver.archive(name)
        fill(node, name, [NewRecord(NOW_MS - 3 * DAY_MS, None, b"late")])
        fill(node, name, [NewRecord(NOW_MS, None, b"new")])
        assert archiver.trim(name, 4 * DAY_MS) == {0: 0}, "nothing is old enough"
        assert archiver.trim(name, DAY_MS) == {0: 30}, "the archive goes only so far"
        assert broker.offsets({(name, 0): EARLIEST_TIME}) == {(name, 0): 30}
        assert archiver.archive(name).lost == 0
    assert len(list(archive.folder(name).rglob("*.parquet"))) == len(archive.files(name).paths)


def test_what_the_log_dropped_too_early_is_told(
    node: RunningNode, name: str, archive: Archive
) -> None:
    fill(node, name, rows(10), partitions=1)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        archiver = Archiver(broker, archive)
        archiver.archive(name)
        fill(node, name, rows(10, start=10))
        broker.delete_before({(name, 0): 14})
        moved = archiver.archive(name)
    assert (moved.lost, moved.records) == (4, 6)


async def test_a_range_is_replayed_in_order_with_its_origin(
    node: RunningNode, name: str, archive: Archive
) -> None:
    """P5: an archived range back into a topic, key, value, time and headers as they were."""
    await asyncio.to_thread(fill, node, name, rows(40), 1)

    def archive_all() -> None:
        with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
            Archiver(broker, archive, rows_max=9).archive(name)

    await asyncio.to_thread(archive_all)
    wanted = Wanted(topic=name, into=f"{name}-again", start=10, stop=30)
    heard: list[int] = []
    sent = await replay(archive, wanted, node.bootstrap, SystemClock(), tell=heard.append)
    assert sent == sum(heard) == 20
    again = Archive(archive.directory.parent / "again")

    def read_back() -> None:
        with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
            Archiver(broker, again).archive(f"{name}-again")

    await asyncio.to_thread(read_back)
    records = [
        r for chunk in archived(again, Wanted(topic=f"{name}-again", into="")) for r in chunk
    ]
    assert [record.value for record in records] == [b"%d" % i for i in range(10, 30)]
    assert [record.timestamp for record in records] == [r.timestamp for r in rows(20, start=10)]
    again.close()

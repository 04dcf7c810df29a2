"""What a task reads is the same from the broker, from its files and from the archive."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from chordmq.archive.archiver import Archiver
from chordmq.archive.table import Archive
from chordmq.client.bulk import Bulk, BulkSettings, DataLost, OffsetRange
from pyspark_chordmq import parts
from pyspark_chordmq.options import Options
from pyspark_chordmq.parts import KINDS, read_task
from pyspark_chordmq.reader import BatchReader
from pyspark_chordmq.tasks import Part, Task, planned
from tests.archive.test_archiver import NOW_MS, fill, rows
from tests.client.test_segments import transact
from tests.running_node import RunningNode

NAMES = list(KINDS)
ROWS, KEPT = 60, 25


@pytest.fixture
def archive(node: RunningNode, name: str, tmp_path: Path) -> str:
    """Give an archive of a topic whose log has lost its older part since."""
    archive = Archive(tmp_path / "archive")
    fill(node, name, rows(50), partitions=1)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        Archiver(broker, archive, rows_max=20).archive(name)
    archive.close()
    fill(node, name, rows(ROWS - 50, start=50))
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    cut = TopicPartition(name, 0, ROWS - KEPT)
    admin.delete_records([cut])[cut].result(60)
    return str(tmp_path / "archive")


def read(options: Options) -> list[dict[str, object]]:
    reader = BatchReader(options, NAMES)
    tasks = reader.partitions()
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def test_files_and_broker_give_the_same_rows(node: RunningNode, name: str) -> None:
    """P2: when the data directory is in sight, nobody asks the broker for it."""
    fill(node, name, rows(ROWS), partitions=1)
    wire = Options(bootstrap=node.bootstrap, topics=(name,), start="earliest")
    whole = Task(Part(OffsetRange(name, 0, 0, ROWS)))
    nobody = Options(bootstrap="127.0.0.1:1", data_directory=str(node.data))
    direct = [row for batch in read_task(nobody, NAMES, whole) for row in batch.to_pylist()]
    assert direct == read(wire)
    assert [row["offset"] for row in direct] == list(range(ROWS))


def test_a_task_reads_several_partitions_over_one_connection(
    node: RunningNode, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: each row says which partition it is of, whether files or the broker had it."""
    fill(node, name, rows(ROWS), partitions=3)
    options = Options(bootstrap=node.bootstrap, topics=(name,), start="earliest")
    apart = {(row["partition"], row["offset"]): row for row in read(options)}
    sizes = Counter(partition for partition, _ in apart)
    assert len(sizes) > 1
    ranges = [OffsetRange(name, one, 0, sizes[one]) for one in range(3)]
    (whole,) = planned(options, ranges, {}, cores=1)
    opened: list[Bulk] = []

    class Counted(Bulk):
        def __enter__(self) -> Self:
            opened.append(self)
            return super().__enter__()

    monkeypatch.setattr(parts, "Bulk", Counted)
    for rows_min in (1, ROWS):
        monkeypatch.setattr(parts, "ROWS_FROM_FILES_MIN", rows_min)
        together = [row for one in read_task(options, NAMES, whole) for row in one.to_pylist()]
        assert {(row["partition"], row["offset"]): row for row in together} == apart
        assert len(together) == ROWS
    assert len(opened) == 2


def fail(*_: object) -> None:
    raise AssertionError("the broker was asked for records")


def test_files_of_a_broker_on_the_same_machine_are_read_without_being_asked_to(
    node: RunningNode, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: nobody has to say where they are, unless he wants every record over the wire."""
    monkeypatch.setattr(parts, "ROWS_FROM_FILES_MIN", ROWS)
    fill(node, name, rows(ROWS), partitions=1)
    options = Options(bootstrap=node.bootstrap, topics=(name,), start="earliest")
    wire = read(replace(options, local_files=False))
    with monkeypatch.context() as patched:
        patched.setattr(Bulk, "fetch", fail)
        assert read(options) == wire
        with pytest.raises(AssertionError, match="asked for records"):
            read(replace(options, local_files=False))
    monkeypatch.setattr(parts, "ROWS_FROM_FILES_MIN", ROWS + 1)
    monkeypatch.setattr(parts, "logs_in_sight", fail)
    assert read(options) == wire, "so few rows are not worth the question"


def test_records_whose_files_go_while_a_task_reads_come_from_the_broker(
    node: RunningNode, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2, C3: and those of an aborted transaction do not come at all."""
    monkeypatch.setattr(parts, "ROWS_FROM_FILES_MIN", 1)
    fill(node, name, rows(ROWS), partitions=1)
    transact(node, name, aborted=True)
    fill(node, name, rows(ROWS))
    copied = tmp_path / f"{name}-0"
    shutil.copytree(node.data / "topics" / f"{name}-0", copied)

    def gone(_: Bulk, part: OffsetRange) -> Path:
        for log in copied.glob("*.log"):
            log.unlink()
        return tmp_path

    options = Options(bootstrap=node.bootstrap, topics=(name,), start="earliest")
    expected = read(replace(options, local_files=False))
    assert [row["offset"] for row in expected] == [*range(ROWS), *range(ROWS + 2, 2 * ROWS + 2)]
    assert read(options) == expected, "the files end before the transaction"
    monkeypatch.setattr(parts, "logs_in_sight", gone)
    assert read(options) == expected


def test_the_archive_goes_on_before_the_log_in_one_space_of_offsets(
    node: RunningNode, name: str, archive: str
) -> None:
    """P5, A6: what retention took from the log is read from the archive, each record once."""
    options = Options(bootstrap=node.bootstrap, topics=(name,), start="earliest")
    assert len(read(options)) == KEPT
    whole = read(
        Options(bootstrap=node.bootstrap, topics=(name,), start="earliest", archive=archive)
    )
    assert [row["offset"] for row in whole] == list(range(ROWS))
    assert [row["value"] for row in whole] == [b"%d" % i for i in range(ROWS)]
    assert [row["headers"] for row in whole[:2]] == [
        [{"key": "n", "value": b"%d" % i}] for i in range(2)
    ]
    since = Options(bootstrap=node.bootstrap, topics=(name,), start=NOW_MS, archive=archive)
    assert [row["offset"] for row in read(since)] == list(range(ROWS)), "the first is of today"


def test_what_neither_has_is_lost_unless_that_is_allowed(
    node: RunningNode, name: str, archive: str
) -> None:
    wanted, first = OffsetRange(name, 0, 0, 59), {(name, 0): 59}
    strict = Options(bootstrap=node.bootstrap, archive=archive)
    with pytest.raises(DataLost, match="the archive has 0 to 49"):
        planned(strict, [wanted], first)
    lenient = Options(bootstrap=node.bootstrap, archive=archive, fail_on_data_loss=False)
    tasks = planned(lenient, [wanted], first)
    found = [(one.offsets.start, one.offsets.stop) for task in tasks for one in task.parts]
    assert found == [(0, 20), (20, 40), (40, 50)]

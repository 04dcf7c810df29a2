"""A transaction with a crash before and after every write to any log: all of it, or nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.groups.membership import Identity
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import ManualClock
from chordmq.records.batch import walk
from chordmq.records.record import NewRecord, read_records
from tests.broker.running_broker import running

SETTINGS = BrokerSettings(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
PLACE = ("out", 0)
INPUT = ("in", 0)
WRITES_MIN = 9  # begin, two partitions, record, offset, decision, two markers, completion


async def transform(broker: Broker, *, has_epoch_per_transaction: bool) -> None:
    """Make one result of one input, as a client that has just started does; wait for its end."""
    transactions, groups = broker.transactions, broker.groups
    producer = await transactions.init("x", 60_000)
    if INPUT in groups.committed("g"):
        return
    await transactions.add("x", producer, [PLACE])
    record = NewRecord(broker.clock.now_ms(), b"k", b"result")
    await broker.append_records(*PLACE, [record], producer=producer)
    await transactions.add("x", producer, [groups.place_of("g")])
    await groups.commit_in_transaction("g", Identity(), producer, [Commit(*INPUT, 1)])
    following = await transactions.end(
        "x",
        producer,
        is_commit=True,
        has_epoch_per_transaction=has_epoch_per_transaction,
    )
    await transactions.add("x", following, [])  # comes back when the markers are written


class Crashes:
    """Copies of the data directory, as a crash at that moment would leave it."""

    def __init__(self, broker: Broker, source: Path, target: Path) -> None:
        self.copies: list[Path] = []
        self._source = source
        self._target = target
        for name in ("append_records", "append_marker"):
            self._watch(broker, name)

    def _watch(self, broker: Broker, name: str) -> None:
        write = getattr(broker, name)

        async def watched(*arguments: Any, **options: Any) -> Any:
            self._copy()
            result = await write(*arguments, **options)
            self._copy()
            return result

        setattr(broker, name, watched)

    def _copy(self) -> None:
        copy = self._target / str(len(self.copies))
        shutil.copytree(self._source, copy)
        self.copies.append(copy)


def visible(partition: Partition) -> list[bytes | None]:
    """Return what a reader of committed records sees."""
    values: list[bytes | None] = []
    buffers = partition.read(0, 2**20, only_stable=True)
    aborted = dict(partition.aborted_in(0, buffers))
    for data in buffers:
        for position, header in walk(data):
            first = aborted.get(header.producer_id)
            if header.is_control:
                aborted.pop(header.producer_id, None)
            elif first is None or header.base_offset < first:
                batch = data[position : position + header.size]
                values += [record.value for record in read_records(batch)]
    return values


@pytest.mark.parametrize("has_epoch_per_transaction", [False, True])
async def test_a_crash_at_every_write_leaves_all_of_a_transaction_or_nothing(
    tmp_path: Path, has_epoch_per_transaction: bool
) -> None:
    """C3: the result is seen if and only if the input counts as read, and never twice."""
    source = tmp_path / "data"
    async with running(source, ManualClock(), SETTINGS) as broker:
        for topic in ("in", "out"):
            await broker.topics.create(topic, 1, 1)
        crashes = Crashes(broker, source, tmp_path)
        await transform(broker, has_epoch_per_transaction=has_epoch_per_transaction)
        assert visible(broker.partition(*PLACE)) == [b"result"]
    assert len(crashes.copies) >= 2 * WRITES_MIN
    outcomes = set()
    for copy in crashes.copies:
        async with running(copy, ManualClock(), SETTINGS) as broker:
            await broker.transactions.init("x", 60_000)  # ends what was begun, either way
            is_done = INPUT in broker.groups.committed("g")
            assert visible(broker.partition(*PLACE)) == ([b"result"] if is_done else [])
            outcomes.add(is_done)
            await transform(broker, has_epoch_per_transaction=has_epoch_per_transaction)
            assert visible(broker.partition(*PLACE)) == [b"result"]
            assert broker.groups.committed("g")[INPUT].offset == 1
    assert outcomes == {True, False}

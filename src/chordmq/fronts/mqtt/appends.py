"""What clients publish: joined over one turn of the event loop into one batch per partition."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.patience import ANOTHER_TIME, Patience
from chordmq.errors import ChordMQError, UnknownTopic
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.batch import HEADER_SIZE
from chordmq.records.record import AlikeRecords, Headers, NewRecord, build_alike, build_batch

RECORD_OVERHEAD_MAX = 40
"""Bytes that a record takes besides key, value and headers, at most."""

Done = Callable[[ChordMQError | None], None]
"""Told when messages are as durable as their topic asks for, or why they are not stored."""


@dataclass(slots=True, eq=False)
class Unit:
    """Messages of one client to one name, and who wants to know what became of them."""

    parcel: Parcel
    records: AlikeRecords
    headers: Headers
    done: Done | None = None
    is_apart: bool = False
    """Whether its time or its lack of a value keeps it from a batch with others."""

    @property
    def size(self) -> int:
        """Return how many bytes the messages may take in a batch."""
        key, headers, values = self.records
        around = len(key) + len(headers) + RECORD_OVERHEAD_MAX
        return sum(map(len, values)) + around * len(values)

    def as_records(self) -> list[NewRecord]:
        """Return the messages one by one."""
        parcel = self.parcel
        return [
            NewRecord(
                parcel.timestamp_ms, parcel.key, None if parcel.is_null else value, self.headers
            )
            for value in parcel.payloads
        ]


class MessageAppends:
    """What waits for the end of this turn; one write and one flush then serve all of it."""

    def __init__(self, broker: Broker, tails: dict[Partition, Tail]) -> None:
        self._broker = broker
        self._tails = tails
        self._waiting: dict[Partition, list[Unit]] = {}
        self._patience = Patience(broker.clock)

    def add(self, partition: Partition, unit: Unit) -> None:
        """Have messages appended at the end of this turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.write_all)
        self._waiting.setdefault(partition, []).append(unit)

    def write_all(self) -> None:
        """Append what waits."""
        everything, self._waiting = self._waiting, {}
        for partition, units in everything.items():
            for joined in _joined(units, partition.settings.max_message_bytes - HEADER_SIZE):
                self._write(partition, joined)

    def _write(self, partition: Partition, joined: list[Unit]) -> None:
        waiting = [unit.done for unit in joined if unit.done is not None]
        batch = memoryview(self._batch(partition, joined))
        if not partition.is_leader or self._patience.holds_up(partition):
            _tell_later(waiting, self._patience.append(partition, batch))
            return
        try:
            appended = partition.append(batch)
        except ANOTHER_TIME:
            _tell_later(waiting, self._patience.append(partition, batch))
            return
        except ChordMQError as error:
            if len(joined) == 1:
                _tell(waiting, error)
            else:  # one client's messages must not fail another's
                for unit in joined:
                    self._write(partition, [unit])
            return
        tail = self._tails.get(partition)
        shared = self._broker.shared
        if tail is not None and shared.intercept is None and shared.deliver is None:
            tail.expect(appended.base_offset, [unit.parcel for unit in joined])
        if waiting:
            self._when_committed(partition, batch, waiting, appended.next_offset)

    def append_alone(self, partition: Partition, batch: bytearray, unit: Unit) -> None:
        """Append messages that are a batch of their own already."""
        assert unit.done is not None
        data, waiting = memoryview(batch), [unit.done]
        if not partition.is_leader or self._patience.holds_up(partition):
            _tell_later(waiting, self._patience.append(partition, data))
            return
        try:
            appended = partition.append(data)
        except ANOTHER_TIME:
            _tell_later(waiting, self._patience.append(partition, data))
        except ChordMQError as error:
            unit.done(error)
        else:
            self._when_committed(partition, data, waiting, appended.next_offset)

    def _when_committed(
        self, partition: Partition, batch: memoryview, waiting: list[Done], next_offset: int
    ) -> None:
        committed = partition.committed(next_offset)
        if committed is None:
            _tell(waiting, None)
            return

        def end(future: asyncio.Future[None]) -> None:
            error = _outcome(future)
            if isinstance(error, ANOTHER_TIME):
                _tell_later(waiting, self._patience.append_again(partition, batch))
            else:
                _tell(waiting, error)

        committed.add_done_callback(end)

    def _batch(self, partition: Partition, joined: list[Unit]) -> bytearray:
        if self._broker.shared.payloads is not None or joined[0].is_apart:
            records = [record for unit in joined for record in unit.as_records()]
            return build_batch(partition.sealed(records))
        return build_alike(joined[0].parcel.timestamp_ms, [unit.records for unit in joined])


def _joined(units: list[Unit], size_max: int) -> Iterator[list[Unit]]:
    """Yield who shares a batch: messages of one time; one too large is refused by itself."""
    joined: list[Unit] = []
    size = 0
    for unit in units:
        is_other = unit.is_apart or (
            joined and joined[0].parcel.timestamp_ms != unit.parcel.timestamp_ms
        )
        if joined and (size + unit.size > size_max or is_other or joined[0].is_apart):
            yield joined
            joined, size = [], 0
        joined.append(unit)
        size += unit.size
    yield joined


def _outcome(future: asyncio.Future[Any]) -> ChordMQError | None:
    if future.cancelled():
        return UnknownTopic("the topic was deleted meanwhile")
    error = future.exception()
    return error if isinstance(error, ChordMQError) else None


def _tell(waiting: list[Done], error: ChordMQError | None) -> None:
    for done in waiting:
        done(error)


def _tell_later(waiting: list[Done], appended: asyncio.Future[int]) -> None:
    appended.add_done_callback(lambda future: _tell(waiting, _outcome(future)))

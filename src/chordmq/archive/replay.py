"""Puts an archived range back into a topic: in the order of each partition, as fast as allowed."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from chordmq.archive.files import MOMENT, covering, read_rows, within
from chordmq.archive.table import SCHEMA, Archive
from chordmq.client.bulk import OffsetRange
from chordmq.client.connection import ConnectionSettings
from chordmq.client.producer import Producer
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.records.record import NewRecord

ROWS_AT_ONCE = 5_000
END = 2**63 - 1
ORIGIN = ("chordmq.origin.topic", "chordmq.origin.partition", "chordmq.origin.offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is replayed: offsets or times may be open on either side."""

    topic: str
    into: str
    start_ms: int | None = None
    stop_ms: int | None = None
    start: int | None = None
    stop: int | None = None
    rate: float = 0.0
    """Records a second; 0 for as fast as it goes."""


async def replay(
    archive: Archive,
    wanted: Wanted,
    bootstrap: str,
    clock: Clock,
    *,
    connection: ConnectionSettings | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> int:
    """Produce the archived records to a topic, and return how many; `tell` hears each step.

    Key, value, time and headers are those of the original, whose place is added in headers; a key
    decides the partition as it does for every producer.
    """
    sent = 0
    begun_s = clock.monotonic_s()
    async with Producer(bootstrap, connection=connection) as producer:
        for records in archived(archive, wanted):
            await producer.enqueue_all(wanted.into, records)
            sent += len(records)
            tell(len(records))
            if wanted.rate > 0:
                ahead_s = sent / wanted.rate - (clock.monotonic_s() - begun_s)
                await asyncio.sleep(max(0.0, ahead_s))
    return sent


def archived(archive: Archive, wanted: Wanted) -> Iterator[list[NewRecord]]:
    """Yield the wanted records, each partition's in the order of its offsets."""
    files = archive.files(wanted.topic).named
    for partition in sorted({one.partition for one in files}):
        whole = OffsetRange(wanted.topic, partition, wanted.start or 0, wanted.stop or END)
        for piece, paths in covering(files, whole):
            table = read_rows(paths, within(piece) & _in_time(wanted))
            yield from _records(table, wanted.topic)


def counted(archive: Archive, wanted: Wanted) -> int:
    """Return how many records a replay produces; what files say of themselves mostly tells."""
    paths = archive.files(wanted.topic).paths
    if not paths:
        return 0
    whole = OffsetRange(wanted.topic, 0, wanted.start or 0, wanted.stop or END)
    found = dataset(paths, format="parquet", schema=SCHEMA)
    return int(found.count_rows(filter=within(whole) & _in_time(wanted)))


def _in_time(wanted: Wanted) -> Any:
    kept: Any = pc.scalar(True)
    if wanted.start_ms is not None:
        kept &= pc.field("timestamp") >= pa.scalar(wanted.start_ms, MOMENT)
    if wanted.stop_ms is not None:
        kept &= pc.field("timestamp") < pa.scalar(wanted.stop_ms, MOMENT)
    return kept


def _records(table: pa.Table, topic: str) -> Iterator[list[NewRecord]]:
    for batch in table.to_batches(ROWS_AT_ONCE):
        columns = {name: batch.column(name).to_pylist() for name in ("key", "value", "headers")}
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        places = zip(
            batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
        )
        rows = zip(times, columns["key"], columns["value"], columns["headers"], places, strict=True)
        yield [
            NewRecord(time // 1000, key, value, _headers(headers, (topic, *place)))
            for time, key, value, headers, place in rows
        ]


def _headers(
    pairs: list[dict[str, Any]] | None, place: tuple[str, int, int]
) -> tuple[tuple[str, bytes | None], ...]:
    own = tuple((pair["key"], pair["value"]) for pair in pairs or () if pair["key"] not in ORIGIN)
    return own + tuple((name, str(part).encode()) for name, part in zip(ORIGIN, place, strict=True))

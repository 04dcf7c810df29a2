"""Fetches records from the leaders of assigned partitions, one request ahead of the reader."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from chordmq.client.backoff import Backoff
from chordmq.client.cluster import Cluster
from chordmq.client.codes import Code
from chordmq.client.errors import BrokerRefused, CannotDecrypt, ClientError, ProtocolMismatch, check
from chordmq.client.offsets import EARLIEST, Start, TopicPartition, by_topic, offsets_for
from chordmq.codecs.kafka.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from chordmq.dataclass import dataclass
from chordmq.encryption.errors import EncryptionError
from chordmq.errors import ChordMQError
from chordmq.records.batch import LENGTH_END, BatchHeader, verify, walk
from chordmq.records.record import Record, read_records

if TYPE_CHECKING:
    from chordmq.encryption.envelope import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How much is fetched at once, and what is shown to the reader."""

    max_wait_s: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    read_committed: bool = True
    reset: Start | None = EARLIEST
    """Where to go on when the offset is no longer, or not yet, in the log; None raises."""


class Chunk(NamedTuple):
    """Neighbouring records of one partition, and the offset that follows them."""

    topic: str
    partition: int
    records: list[Record]
    next_offset: int


@dataclass(slots=True, eq=False)
class _Reading:
    """One assigned partition: where the next fetch starts."""

    topic: str
    partition: int
    start: Start
    offset: int | None = None
    """None until the start has been looked up."""
    high_watermark: int = -1


class _Asked(NamedTuple):
    """A fetch that is under way, and the offset it asked of each partition."""

    answer: asyncio.Future[FetchResponse]
    offsets: dict[TopicPartition, tuple[_Reading, int]]


class Fetcher:
    """Reads assigned partitions; each leader has at most one request open and one chunk list."""

    def __init__(
        self, cluster: Cluster, settings: FetchSettings, encryption: "Envelope | None" = None
    ) -> None:
        self._cluster = cluster
        self._encryption = encryption
        self._settings = settings
        self._readings: dict[TopicPartition, _Reading] = {}
        self._asked: dict[int, _Asked] = {}
        self._arrived: deque[tuple[_Reading, int, PartitionData]] = deque()
        self._backoff = Backoff(cluster.chance)

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Replace the partitions to read; answers under way to the old ones are thrown away."""
        self._readings = {
            (topic, index): _Reading(topic, index, start)
            for (topic, index), start in starts.items()
        }
        self._arrived.clear()

    def seek(self, topic: str, partition: int, start: Start) -> None:
        """Read an assigned partition from another place."""
        self._readings[topic, partition] = _Reading(topic, partition, start)

    def offset(self, topic: str, partition: int) -> int:
        """Return where an assigned partition is read next, or -1 before its start is known."""
        found = self._readings[topic, partition].offset
        return -1 if found is None else found

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the end of a partition as the last answer told it, or -1."""
        return self._readings[topic, partition].high_watermark

    async def resolve(self) -> dict[TopicPartition, int]:
        """Look up the starts that are not known yet; return where each partition is read next."""
        times = {}
        for pair, reading in self._readings.items():
            if reading.offset is None and reading.start.offset is not None:
                reading.offset = reading.start.offset
            elif reading.offset is None:
                times[pair] = reading.start.timestamp_ms
        if times:
            committed = self._settings.read_committed
            found = await offsets_for(self._cluster, times, committed=committed)
            for pair, offset in found.items():
                self._readings[pair].offset = offset
        return {pair: reading.offset or 0 for pair, reading in self._readings.items()}

    async def poll(self, timeout_s: float) -> Chunk | None:
        """Return the next chunk of records, or None when none came in time."""
        deadline_s = self._cluster.clock.monotonic_s() + timeout_s
        while True:
            while self._arrived:
                chunk = self._take()
                if chunk is not None:
                    # Not before the last chunk: a fetch for some partitions of a leader would wait
                    # for news of them while the others have to be fetched.
                    if not self._arrived:
                        await self._ask_ahead()
                    return chunk
            left_s = deadline_s - self._cluster.clock.monotonic_s()
            if left_s <= 0:
                return None
            try:
                await self._receive(left_s)
                self._backoff.reset()
            except ClientError as error:
                if not error.retriable:
                    raise
                for topic, _ in self._readings:
                    self._cluster.forget(topic)
                await asyncio.sleep(min(left_s, self._backoff.next_s()))

    async def _receive(self, timeout_s: float) -> None:
        """Keep a fetch open to every leader, and take in the first answers."""
        await self.resolve()
        await self._ask_idle()
        if not self._asked:
            await asyncio.sleep(timeout_s)
            return
        futures = {asked.answer: leader for leader, asked in self._asked.items()}
        done, _ = await asyncio.wait(
            futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        for future in done:
            asked = self._asked.pop(futures[future])
            answer = future.result()
            check(answer.error_code, "fetch")
            self._accept(asked, answer)

    async def _ask_ahead(self) -> None:
        """Let the leaders work while the reader does."""
        try:
            await self._ask_idle()
        except ClientError:
            return  # the next poll meets the same fault with nothing in its hands

    async def _ask_idle(self) -> None:
        """Send a fetch to each leader that has none under way."""
        leaders: dict[int, list[_Reading]] = defaultdict(list)
        for pair, reading in self._readings.items():
            if reading.offset is not None:
                leaders[await self._cluster.leader(*pair)].append(reading)
        for leader, readings in leaders.items():
            if leader not in self._asked:
                await self._ask(leader, readings)

    async def _ask(self, leader: int, readings: list[_Reading]) -> None:
        settings = self._settings
        wanted = {(one.topic, one.partition): (one, one.offset or 0) for one in readings}
        request = FetchRequest(
            max_wait_ms=int(settings.max_wait_s * 1000),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.read_committed),
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=wanted[topic, index][1],
                            partition_max_bytes=settings.partition_max_bytes,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        connection = await self._cluster.node(leader, "fetch")
        patience_s = settings.max_wait_s + self._cluster.settings.request_timeout_s
        self._asked[leader] = _Asked(connection.send(request, FetchResponse, patience_s), wanted)

    def _accept(self, asked: _Asked, answer: FetchResponse) -> None:
        for topic in answer.responses:
            for row in topic.partitions:
                reading, offset = asked.offsets[topic.topic, row.partition_index]
                current = self._readings.get((topic.topic, row.partition_index))
                if reading is not current or reading.offset != offset:
                    continue  # assigned or sought elsewhere meanwhile
                reading.high_watermark = row.high_watermark
                if row.error_code:
                    self._refused(reading, row.error_code)
                elif row.records is not None and len(row.records):
                    self._arrived.append((reading, offset, row))

    def _refused(self, reading: _Reading, code: int) -> None:
        subject = f"{reading.topic} partition {reading.partition}"
        if code == Code.OFFSET_OUT_OF_RANGE and self._settings.reset is not None:
            reading.start, reading.offset = self._settings.reset, None
            return
        raise BrokerRefused(code, subject, f"offset {reading.offset}")

    def _take(self) -> Chunk | None:
        """Decode one partition's answer; None when it holds nothing for the reader."""
        reading, offset, row = self._arrived.popleft()
        current = self._readings.get((reading.topic, reading.partition))
        if reading is not current or reading.offset != offset:
            return None  # sought elsewhere, or told by the old and the new leader both
        assert row.records is not None
        aborted = row.aborted_transactions if self._settings.read_committed else None
        try:
            records, following = decode_batches(memoryview(row.records), offset, aborted or [])
        except ChordMQError as error:
            raise ProtocolMismatch(
                f"{reading.topic} partition {reading.partition} offset {offset}: {error}"
            ) from error
        if self._encryption is not None:
            records = _opened(self._encryption, reading, records)
        reading.offset = following
        if not records:
            return None
        return Chunk(reading.topic, reading.partition, records, following)


def _opened(encryption: "Envelope", reading: _Reading, records: list[Record]) -> list[Record]:
    """Decrypt records; the position stays before a chunk with one that cannot be."""
    found = []
    for record in records:
        try:
            found.append(encryption.open(reading.topic, record))
        except EncryptionError as error:
            place = f"{reading.topic} partition {reading.partition} offset {record.offset}"
            raise CannotDecrypt(f"{place}: {error}") from error
    return found


def decode_batches(
    data: memoryview, offset: int, aborted: list[AbortedTransaction]
) -> tuple[list[Record], int]:
    """Return the records from `offset` on that are not control or aborted, and the next offset."""
    records: list[Record] = []
    found = visible_batches(data, aborted)
    for position, header in found.batches:
        read = read_records(data[position : position + header.size])
        records += read if header.base_offset >= offset else _from(read, offset)
    return records, max(offset, found.next_offset)


class Visible(NamedTuple):
    """The batches of an answer that hold records for the reader, and the offset after all."""

    batches: list[tuple[int, BatchHeader]]
    next_offset: int


def visible_batches(data: memoryview, aborted: Iterable[AbortedTransaction]) -> Visible:
    """Check every whole batch, and leave out markers and what belongs to aborted transactions."""
    batches = []
    pending = deque(sorted(aborted, key=lambda one: one.first_offset))
    hidden: set[int] = set()
    following = 0
    for position, header in walk(whole_batches(data)):
        verify(data, position, header)
        while pending and pending[0].first_offset <= header.last_offset:
            hidden.add(pending.popleft().producer_id)
        if header.is_control:
            hidden.discard(header.producer_id)  # a marker ends the producer's transaction
        elif not (header.is_transactional and header.producer_id in hidden):
            batches.append((position, header))
        following = header.next_offset
    return Visible(batches, following)


def whole_batches(data: memoryview) -> memoryview:
    """Cut off a last batch that the broker sent only in part, as Kafka may."""
    position = 0
    while len(data) - position >= LENGTH_END:
        following = (
            position + LENGTH_END + int.from_bytes(data[position + 8 : position + 12], "big")
        )
        if following > len(data):
            break
        position = following
    return data[:position] if position else data


def _from(records: list[Record], offset: int) -> list[Record]:
    return [record for record in records if record.offset >= offset]

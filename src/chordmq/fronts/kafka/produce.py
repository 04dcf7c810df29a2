"""Produce, also as part of a transaction."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from chordmq.broker.groups.offsets import Place
from chordmq.broker.partition import Partition
from chordmq.broker.producers import Incarnation
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.shared import Appended
from chordmq.broker.topic import INTERNAL_TOPICS
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.produce import (
    PartitionAnswer,
    PartitionData,
    ProduceRequest,
    read_request,
    write_response,
)
from chordmq.errors import (
    ChordMQError,
    DecodeError,
    InvalidAcks,
    InvalidRecord,
    InvalidTopicName,
    UnsupportedCompression,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.gathering import SMALL, Asker, Gathering
from chordmq.fronts.kafka.produced import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    Wait,
    answered,
    appended,
    code_for,
    fail,
    fill_in,
)
from chordmq.fronts.kafka.repeats import ZSTD_SINCE, remember
from chordmq.records.batch import COMPRESSION_MASK, CRC_START, read_header
from chordmq.records.compression import Compression

Buffers = list[Buffer]

ENLISTS_SINCE = 12
"""From this version on a batch enlists its partition in the transaction (KIP-890)."""


class SmallProduce:
    """A request whose batches are appended together with those of others."""

    __slots__ = ("_answers", "_batches", "_call", "_place", "_request", "_waits", "asker")

    asker: Asker

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self._call = call
        self._request = request
        self._batches: list[tuple[Partition, PartitionAnswer]] = []
        """Where those batches go that are taken, and what says so."""
        self._waits: list[Wait] = []
        self._answers: list[PartitionAnswer] = []

    def expect(self, asker: Asker, place: Any) -> None:
        """Say who asked, and where in the order of its answers this one stands."""
        self.asker = asker
        self._place = place

    def gather(self, frame: memoryview, gathering: Gathering) -> None:
        """Have all batches appended that may be."""
        call, request = self._call, self._request
        batches: list[tuple[Partition, memoryview]] = []
        for row in request.partitions:
            answer = PartitionAnswer(row.topic, row.topic_id, row.index)
            self._answers.append(answer)
            try:
                partition, records = _admitted(call, request, row, frame)
            except ChordMQError as error:
                fail(call, answer, error)
            else:
                self._batches.append((partition, answer))
                batches.append((partition, records))
        gathering.add_all(self, batches, is_quorum_needed=request.acks == ACKS_ALL)

    def took(self, number: int, result: Appended | ChordMQError) -> None:
        """Fill in what became of one batch."""
        partition, answer = self._batches[number]
        if isinstance(result, ChordMQError):
            fail(self._call, answer, result)
            return
        fill_in(answer, result)
        future = appended(self._call, self._request.acks, partition, result)
        if future is not None:
            self._waits.append((answer, future))

    def end(self) -> None:
        """Hand the answer over, or the future for it."""
        timeout_ms = self._request.timeout_ms
        self.asker.fill(self._place, answered(self._call, self._answers, self._waits, timeout_ms))


def produce(
    call: Call, frame: memoryview, position: int
) -> (
    Buffers
    | asyncio.Future[Buffers | None]
    | Coroutine[None, None, Buffers | None]
    | SmallProduce
    | None
):
    """Append each partition's batch; answer when they are as safe as the producer asked."""
    request = read_request(frame, position, call.version)
    gathering = call.front.gathering
    if gathering is not None:
        if len(frame) <= SMALL and request.transactional_id is None and request.acks != ACKS_NONE:
            small = SmallProduce(call, request)
            small.gather(frame, gathering)
            return small
        gathering.write()  # what came before stands before this in the log
    if request.transactional_id is not None:
        try:
            call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        except ChordMQError as error:
            return _refusal(call, request, error)
    if request.transactional_id is not None and _must_ask(call):
        places = _to_enlist(call, request)
        if places or call.client.enlisting:
            call.client.enlisting += 1
            return _enlisted(call, request, places, frame)
    return _append_all(call, request, frame)


def _must_ask(call: Call) -> bool:
    """Return whether another node may have to be asked, or told, before a batch is appended."""
    return call.version >= ENLISTS_SINCE or not call.broker.topics.is_alone


def _append_all(
    call: Call, request: ProduceRequest, frame: memoryview
) -> Buffers | asyncio.Future[Buffers | None] | None:
    answers: list[PartitionAnswer] = []
    waits: list[Wait] = []
    for row in request.partitions:
        answer = PartitionAnswer(row.topic, row.topic_id, row.index)
        answers.append(answer)
        try:
            partition, records = _admitted(call, request, row, frame)
            future = _append(call, request, partition, records, answer)
        except ChordMQError as error:
            fail(call, answer, error)
        else:
            if future is not None:
                waits.append((answer, future))
    if request.acks == ACKS_NONE:
        if any(answer.error_code for answer in answers):
            raise DecodeError("a batch sent with acks=0 was refused; closing is the only answer")
        return None
    return answered(call, answers, waits, request.timeout_ms)


def _append(
    call: Call,
    request: ProduceRequest,
    partition: Partition,
    records: memoryview,
    answer: PartitionAnswer,
) -> asyncio.Future[None] | None:
    """Append one batch and fill in its answer; return what acks=all has to wait for."""
    is_enlisted = request.transactional_id is not None
    if request.transactional_id is not None:
        _check_enlisted(call, request.transactional_id, partition, records)
    result = partition.append(
        records, is_enlisted=is_enlisted, is_quorum_needed=request.acks == ACKS_ALL
    )
    fill_in(answer, result)
    return appended(call, request.acks, partition, result)


def _admitted(
    call: Call, request: ProduceRequest, row: PartitionData, frame: memoryview
) -> tuple[Partition, memoryview]:
    """Return where a client's batch goes, or raise why it must not."""
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        raise InvalidAcks(f"acks={request.acks}")
    partition = _partition(call, row)
    if partition.topic in INTERNAL_TOPICS:
        raise InvalidTopicName(f"{partition.topic} is the broker's own; clients may only read it")
    if not row.records:
        raise InvalidRecord("no batch for the partition")
    if call.version < ZSTD_SINCE and _is_zstd(row.records):
        raise UnsupportedCompression(f"zstd needs Produce {ZSTD_SINCE} or later")
    remember(call, frame, request, partition)
    return partition, row.records


def _is_zstd(records: memoryview) -> bool:
    attributes = records[CRC_START + 1 : CRC_START + 2]
    return bool(attributes) and attributes[0] & COMPRESSION_MASK == Compression.ZSTD


def _partition(call: Call, row: PartitionData) -> Partition:
    if row.topic_id:
        partition = call.broker.partition_by_id(row.topic_id, row.index)
        call.check(Operation.WRITE, Kind.TOPIC, partition.topic)
        return partition
    call.check(Operation.WRITE, Kind.TOPIC, row.topic)
    return call.broker.partition(row.topic, row.index)


def _to_enlist(call: Call, request: ProduceRequest) -> dict[Incarnation, list[Place]]:
    """Return the partitions that a transaction writes to for the first time, by producer."""
    places: dict[Incarnation, list[Place]] = {}
    for row in request.partitions:
        try:
            partition = _partition(call, row)
            producer = _producer(row.records or memoryview(b""))
        except ChordMQError:
            continue  # `_append` answers with the same fault
        is_new = producer.producer_id not in partition.producers.transactions
        if is_new and partition.topic not in INTERNAL_TOPICS:
            places.setdefault(producer, []).append((partition.topic, partition.index))
    return places


async def _enlisted(
    call: Call,
    request: ProduceRequest,
    places: dict[Incarnation, list[Place]],
    frame: memoryview,
) -> Buffers | None:
    """Append once the coordinator knows of the partitions.

    All requests that come meanwhile go the same way, so that they are appended in their order.
    """
    assert request.transactional_id is not None
    fault: ChordMQError | None = None
    try:
        for producer in {_producer(row.records) for row in request.partitions if row.records}:
            await call.broker.transactions.enlist(
                request.transactional_id,
                producer,
                places.get(producer, ()),
                is_check=call.version < ENLISTS_SINCE,
            )
    except ChordMQError as error:
        fault = error
    finally:
        call.client.enlisting -= 1
    if fault is not None:
        return _refusal(call, request, fault)
    result = _append_all(call, request, frame)
    return await result if isinstance(result, asyncio.Future) else result


def _refusal(call: Call, request: ProduceRequest, fault: ChordMQError) -> Buffers:
    if request.acks == ACKS_NONE:
        raise DecodeError(f"a batch sent with acks=0 was refused: {fault}")
    code = code_for(fault, call.version)
    answers = [
        PartitionAnswer(row.topic, row.topic_id, row.index, code, message=str(fault))
        for row in request.partitions
    ]
    return [write_response(answers, call.version)]


def _check_enlisted(
    call: Call, transactional_id: str, partition: Partition, records: memoryview
) -> None:
    """Refuse a transaction's first batch unless its coordinator knows of the partition."""
    if _must_ask(call):
        return  # it has been asked
    producer = _producer(records)
    if producer.producer_id not in partition.producers.transactions:
        place = (partition.topic, partition.index)
        call.broker.transactions.check_member(transactional_id, producer, place)


def _producer(records: memoryview) -> Incarnation:
    header = read_header(records)
    return Incarnation(header.producer_id, header.producer_epoch)

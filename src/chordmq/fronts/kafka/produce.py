"""Produce, also as part of a transaction."""

import asyncio
from collections.abc import Coroutine
from functools import partial
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
    CoordinatorLoading,
    CoordinatorNotAvailable,
    DecodeError,
    InvalidAcks,
    InvalidRecord,
    InvalidTopicName,
    InvalidTransactionState,
    NotCommittedInTime,
    NotCoordinator,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    ProducerFenced,
    StaleProducerEpoch,
    UnknownTopic,
    UnsupportedCompression,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import NOT_ENOUGH_REPLICAS, TRANSACTION_ABORTABLE, code_of
from chordmq.fronts.kafka.gathering import SMALL, Asker, Gathering
from chordmq.fronts.kafka.leaders import addresses, leader_of
from chordmq.records.batch import COMPRESSION_MASK, CRC_START, read_header
from chordmq.records.compression import Compression

Buffers = list[Buffer]
Wait = tuple[PartitionAnswer, asyncio.Future[None]]
"""An answer, and when its partition has committed what it speaks of."""

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
ZSTD_SINCE = 7
ABORTABLE_SINCE = 11
ENLISTS_SINCE = 12
"""From this version on a batch enlists its partition in the transaction (KIP-890)."""


class SmallProduce:
    """A request whose batches are appended together with those of others."""

    __slots__ = ("_place", "_waits", "answers", "asker", "batches", "call", "request")

    asker: Asker

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self.call = call
        self.request = request
        self.batches: list[tuple[Partition, PartitionAnswer]] = []
        """Where those batches go that are taken, and what says so."""
        self._waits: list[Wait] = []
        self.answers: list[PartitionAnswer] = []

    def expect(self, asker: Asker, place: Any) -> None:
        """Say who asked, and where in the order of its answers this one stands."""
        self.asker = asker
        self._place = place

    def gather(self, gathering: Gathering) -> None:
        """Have all batches appended that may be."""
        call, request = self.call, self.request
        batches: list[tuple[Partition, memoryview]] = []
        for row in request.partitions:
            answer = PartitionAnswer(row.topic, row.topic_id, row.index)
            self.answers.append(answer)
            try:
                partition, records = _admitted(call, request, row)
            except ChordMQError as error:
                fail(call, answer, error)
            else:
                self.batches.append((partition, answer))
                batches.append((partition, records))
        gathering.add(self, batches, is_quorum_needed=request.acks == ACKS_ALL)

    def took(self, number: int, result: Appended | ChordMQError) -> None:
        """Fill in what became of one batch."""
        partition, answer = self.batches[number]
        if isinstance(result, ChordMQError):
            fail(self.call, answer, result)
            return
        fill_in(answer, result)
        future = appended(self.call, self.request.acks, partition, result)
        if future is not None:
            self._waits.append((answer, future))

    def end(self) -> None:
        """Hand the answer over, or the future for it."""
        timeout_ms = self.request.timeout_ms
        self.asker.fill(self._place, answered(self.call, self.answers, self._waits, timeout_ms))


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
            small.gather(gathering)
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
            return _enlisted(call, request, places)
    return _append_all(call, request)


def _must_ask(call: Call) -> bool:
    """Return whether another node may have to be asked, or told, before a batch is appended."""
    return call.version >= ENLISTS_SINCE or not call.broker.topics.is_alone


def _append_all(
    call: Call, request: ProduceRequest
) -> Buffers | asyncio.Future[Buffers | None] | None:
    answers: list[PartitionAnswer] = []
    waits: list[Wait] = []
    for row in request.partitions:
        answer = PartitionAnswer(row.topic, row.topic_id, row.index)
        answers.append(answer)
        try:
            future = _append(call, request, row, answer)
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


def answered(
    call: Call, answers: list[PartitionAnswer], waits: list[Wait], timeout_ms: int
) -> Buffers | asyncio.Future[Buffers | None]:
    """Return the answer, or a future for it where partitions have to commit first."""
    if not waits:
        return _response(call, answers)
    return _when_committed(call, answers, waits, timeout_ms)


def _append(
    call: Call, request: ProduceRequest, row: PartitionData, answer: PartitionAnswer
) -> asyncio.Future[None] | None:
    """Append one batch and fill in its answer; return what acks=all has to wait for."""
    partition, records = _admitted(call, request, row)
    is_enlisted = request.transactional_id is not None
    if request.transactional_id is not None:
        _check_enlisted(call, request.transactional_id, partition, records)
    result = partition.append(
        records, is_enlisted=is_enlisted, is_quorum_needed=request.acks == ACKS_ALL
    )
    fill_in(answer, result)
    return appended(call, request.acks, partition, result)


def _admitted(
    call: Call, request: ProduceRequest, row: PartitionData
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
    return partition, row.records


def fill_in(answer: PartitionAnswer, result: Appended) -> None:
    """Fill in where a batch came to lie."""
    answer.base_offset = result.base_offset
    answer.append_time_ms = result.append_time_ms
    answer.start_offset = result.start_offset


def appended(
    call: Call, acks: int, partition: Partition, result: Appended
) -> asyncio.Future[None] | None:
    """Take note of a batch that is in the log; return what acks=all has to wait for."""
    if call.broker.audit.sample and call.broker.audit.is_sampled():
        call.audit("publish", f"{partition.topic}-{partition.index} offset {result.base_offset}")
    return partition.committed(result.next_offset) if acks == ACKS_ALL else None


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


def _when_committed(
    call: Call, answers: list[PartitionAnswer], waits: list[Wait], timeout_ms: int
) -> asyncio.Future[Buffers | None]:
    """Return a future for the answer that comes when all partitions have committed."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Buffers | None] = loop.create_future()
    left = len(waits)

    def committed(answer: PartitionAnswer, future: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        if done.done():
            return
        if future.cancelled():
            fail(call, answer, UnknownTopic("the topic was deleted meanwhile"))
        elif isinstance(error := future.exception(), ChordMQError):
            fail(call, answer, error)
        if not left:
            done.set_result(_response(call, answers))

    for answer, future in waits:
        future.add_done_callback(partial(committed, answer))
    if not call.broker.members.is_alone:  # other nodes may keep us waiting, our own disk may not
        timer = loop.call_later(timeout_ms / 1000, _give_up, call, answers, waits, done)
        done.add_done_callback(lambda _: timer.cancel())
    return done


def _give_up(
    call: Call,
    answers: list[PartitionAnswer],
    waits: list[Wait],
    done: asyncio.Future[Buffers | None],
) -> None:
    """Answer for those partitions which have not committed in the producer's time."""
    if done.done():
        return
    for answer, future in waits:
        if not future.done():
            fail(call, answer, _lateness(_found(call, answer)))
    done.set_result(_response(call, answers))


def _lateness(partition: Partition | None) -> ChordMQError:
    leader = partition.replica.leader if partition and partition.replica else None
    if leader is not None and not leader.has_enough:
        return NotEnoughReplicasAfterAppend("too few copies are in sync to commit what was written")
    return NotCommittedInTime("not all in-sync copies have this yet")


def fail(call: Call, answer: PartitionAnswer, error: ChordMQError) -> None:
    """Fill in why a batch was refused."""
    answer.error_code = _code_of(error, call.version)
    answer.message = str(error)
    answer.base_offset = -1
    if isinstance(error, NotLeader):
        answer.leader = leader_of(_found(call, answer))


def _found(call: Call, answer: PartitionAnswer) -> Partition | None:
    try:
        if answer.topic_id:
            return call.broker.partition_by_id(answer.topic_id, answer.index)
        return call.broker.partition(answer.topic, answer.index)
    except ChordMQError:
        return None


def _response(call: Call, answers: list[PartitionAnswer]) -> Buffers:
    hints = [answer.leader for answer in answers if answer.leader is not None]
    nodes = addresses(call.broker, hints) if hints else ()
    return [write_response(answers, call.version, nodes)]


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
    call: Call, request: ProduceRequest, places: dict[Incarnation, list[Place]]
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
    result = _append_all(call, request)
    return await result if isinstance(result, asyncio.Future) else result


def _refusal(call: Call, request: ProduceRequest, fault: ChordMQError) -> Buffers:
    if request.acks == ACKS_NONE:
        raise DecodeError(f"a batch sent with acks=0 was refused: {fault}")
    code = _code_of(fault, call.version)
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


def _code_of(error: ChordMQError, version: int) -> int:
    """Return the code that a producer of this version understands."""
    if isinstance(error, InvalidTransactionState) and version >= ABORTABLE_SINCE:
        return TRANSACTION_ABORTABLE
    if isinstance(error, ProducerFenced):
        return code_of(StaleProducerEpoch())
    if isinstance(error, CoordinatorLoading | CoordinatorNotAvailable | NotCoordinator):
        return NOT_ENOUGH_REPLICAS  # producers try again
    return code_of(error)

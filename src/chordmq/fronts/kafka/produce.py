"""Produce and InitProducerId."""

import asyncio
from functools import partial

from chordmq.broker.partition import Partition
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
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
    InvalidRequest,
    InvalidTransactionTimeout,
    UnknownTopic,
    UnsupportedCompression,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of
from chordmq.records.batch import COMPRESSION_MASK, CRC_START
from chordmq.records.compression import Compression

Buffers = list[Buffer]

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
ZSTD_SINCE = 7
NO_TRANSACTIONS = "this node has no transactions yet; leave transactional.id unset"


def produce(
    call: Call, frame: memoryview, position: int
) -> Buffers | asyncio.Future[Buffers | None] | None:
    """Append each partition's batch; answer when they are as safe as the producer asked."""
    request = read_request(frame, position, call.version)
    answers: list[PartitionAnswer] = []
    waits: list[tuple[PartitionAnswer, asyncio.Future[None]]] = []
    for row in request.partitions:
        answer = PartitionAnswer(row.topic, row.topic_id, row.index)
        answers.append(answer)
        try:
            future = _append(call, request, row, answer)
        except ChordMQError as error:
            answer.error_code = code_of(error)
            answer.message = str(error)
        else:
            if future is not None:
                waits.append((answer, future))
    if request.acks == ACKS_NONE:
        if any(answer.error_code for answer in answers):
            raise DecodeError("a batch sent with acks=0 was refused; closing is the only answer")
        return None
    if not waits:
        return [write_response(answers, call.version)]
    return _when_committed(answers, waits, call.version)


def _append(
    call: Call, request: ProduceRequest, row: PartitionData, answer: PartitionAnswer
) -> asyncio.Future[None] | None:
    """Append one batch and fill in its answer; return what acks=all has to wait for."""
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        raise InvalidAcks(f"acks={request.acks}")
    if request.transactional_id is not None:
        raise InvalidRequest(NO_TRANSACTIONS)
    partition = _partition(call, row)
    if not row.records:
        raise InvalidRecord("no batch for the partition")
    if call.version < ZSTD_SINCE and _is_zstd(row.records):
        raise UnsupportedCompression(f"zstd needs Produce {ZSTD_SINCE} or later")
    appended = partition.append(row.records)
    answer.base_offset = appended.base_offset
    answer.append_time_ms = appended.append_time_ms
    answer.start_offset = appended.start_offset
    return partition.committed(appended.next_offset) if request.acks == ACKS_ALL else None


def _is_zstd(records: memoryview) -> bool:
    attributes = records[CRC_START + 1 : CRC_START + 2]
    return bool(attributes) and attributes[0] & COMPRESSION_MASK == Compression.ZSTD


def _partition(call: Call, row: PartitionData) -> Partition:
    if row.topic_id:
        return call.broker.partition_by_id(row.topic_id, row.index)
    return call.broker.partition(row.topic, row.index)


def _when_committed(
    answers: list[PartitionAnswer],
    waits: list[tuple[PartitionAnswer, asyncio.Future[None]]],
    version: int,
) -> asyncio.Future[Buffers | None]:
    """Return a future for the answer that comes when all partitions have committed."""
    done: asyncio.Future[Buffers | None] = asyncio.get_running_loop().create_future()
    left = len(waits)

    def committed(answer: PartitionAnswer, future: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        if future.cancelled():
            gone = UnknownTopic("the topic was deleted meanwhile")
            answer.error_code, answer.message = code_of(gone), str(gone)
        if not left and not done.done():
            done.set_result([write_response(answers, version)])

    for answer, future in waits:
        future.add_done_callback(partial(committed, answer))
    return done


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give an idempotent producer an id that no other has had."""
    if request.transactional_id is None:
        return InitProducerIdResponse(
            producer_id=await call.broker.new_producer_id(), producer_epoch=0
        )
    error: ChordMQError = InvalidRequest(NO_TRANSACTIONS)
    timeout_max = call.broker.settings.transaction_max_timeout_ms
    if not 0 < request.transaction_timeout_ms <= timeout_max:
        error = InvalidTransactionTimeout(f"at most {timeout_max} ms")
    return InitProducerIdResponse(error_code=code_of(error), producer_id=-1, producer_epoch=-1)

"""What became of produced batches: answers, now or when all copies have them."""

import asyncio
from functools import partial

from chordmq.broker.partition import Partition
from chordmq.broker.shared import Appended
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.produce import PartitionAnswer, write_response
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidTransactionState,
    NotCommittedInTime,
    NotCoordinator,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    ProducerFenced,
    StaleProducerEpoch,
    UnknownTopic,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import NOT_ENOUGH_REPLICAS, TRANSACTION_ABORTABLE, code_of
from chordmq.fronts.kafka.leaders import addresses, leader_of

Buffers = list[Buffer]
Wait = tuple[PartitionAnswer, asyncio.Future[None]]
"""An answer, and when its partition has committed what it speaks of."""

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
ABORTABLE_SINCE = 11


def fill_in(answer: PartitionAnswer, result: Appended) -> None:
    """Fill in where a batch came to lie."""
    answer.base_offset = result.base_offset
    answer.append_time_ms = result.append_time_ms
    answer.start_offset = result.start_offset


def appended(
    call: Call, acks: int, partition: Partition, result: Appended
) -> asyncio.Future[None] | None:
    """Take note of a batch that is in the log; return what acks=all has to wait for."""
    take_note(call, partition, result)
    return partition.committed(result.next_offset) if acks == ACKS_ALL else None


def take_note(call: Call, partition: Partition, result: Appended) -> None:
    """Have the audit know of a batch that is in the log, if it wants to."""
    audit = call.front.broker.audit
    if audit.sample and audit.is_sampled():
        call.audit("publish", f"{partition.topic}-{partition.index} offset {result.base_offset}")


def answered(
    call: Call, answers: list[PartitionAnswer], waits: list[Wait], timeout_ms: int
) -> Buffers | asyncio.Future[Buffers | None]:
    """Return the answer, or a future for it where partitions have to commit first."""
    if not waits:
        return _response(call, answers)
    return _when_committed(call, answers, waits, timeout_ms)


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
    answer.error_code = code_for(error, call.version)
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


def code_for(error: ChordMQError, version: int) -> int:
    """Return the code that a producer of this version understands."""
    if isinstance(error, InvalidTransactionState) and version >= ABORTABLE_SINCE:
        return TRANSACTION_ABORTABLE
    if isinstance(error, ProducerFenced):
        return code_of(StaleProducerEpoch())
    if isinstance(error, CoordinatorLoading | CoordinatorNotAvailable | NotCoordinator):
        return NOT_ENOUGH_REPLICAS  # producers try again
    return code_of(error)

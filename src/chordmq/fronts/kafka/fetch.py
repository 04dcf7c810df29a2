"""Fetch: what is there at once, or as soon as there is enough, or when the wait is over."""

import asyncio
from functools import partial
from random import SystemRandom

from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.fetch import Buffer, PartitionRecords, write_response
from chordmq.codecs.kafka.fetch_form import SESSIONS_SINCE
from chordmq.codecs.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chordmq.codecs.kafka.schema import decode
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of
from chordmq.fronts.kafka.fetch_repeats import affordable, remember, size_max
from chordmq.fronts.kafka.fetch_session import EPOCH_MAX, SESSIONLESS, FetchSession, Row
from chordmq.fronts.kafka.leaders import addresses, copy_for

Buffers = list[Buffer]

READ_COMMITTED = 1
COPIES_SINCE = 11
"""From this version on clients can read from followers (KIP-392)."""
FIRST_EPOCH = 0
FINAL_EPOCH = -1
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71

_random = SystemRandom()


def fetch(call: Call, frame: memoryview, position: int) -> Buffers | asyncio.Future[Buffers | None]:
    """Answer a Fetch request, parked until there is enough to send if need be."""
    request = decode(FetchRequest, call.version, frame, position)
    is_full = request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH) or call.version < SESSIONS_SINCE
    if is_full:
        session = _new_session(call, request)
    else:
        current = call.client.fetch_session
        if current is None or current.id != request.session_id:
            return write_response([], call.version, FETCH_SESSION_ID_NOT_FOUND)
        if current.epoch != request.session_epoch:
            return write_response([], call.version, INVALID_FETCH_SESSION_EPOCH)
        current.advance()
        session = current
    session.only_stable = request.isolation_level == READ_COMMITTED
    session.is_patient = request.max_wait_ms > 0 and request.min_bytes > 0
    session.reads_copies = call.version >= COPIES_SINCE
    if session.reads_copies and not call.broker.members.is_alone:
        session.nearer = partial(copy_for, call, request.rack_id)
    for topic in request.forgotten_topics_data:
        session.forget((topic.topic, topic.topic_id, index) for index in topic.partitions)
    for wanted in request.topics:
        for partition in wanted.partitions:
            session.put(_row(call, session, wanted, partition))
    remember(call, frame, position, request, session)
    return Fetch(call, request, session, is_full).answer_or_park()


def _new_session(call: Call, request: FetchRequest) -> FetchSession:
    """Begin a session if the client asks for one; whichever it had ends."""
    if call.client.fetch_session is not None:
        call.client.fetch_session.close()
        call.client.fetch_session = None
    if call.version < SESSIONS_SINCE or request.session_epoch == FINAL_EPOCH:
        return FetchSession(SESSIONLESS, call.broker.permissions.acl.version)
    session = FetchSession(_random.randint(1, EPOCH_MAX), call.broker.permissions.acl.version)
    call.client.fetch_session = session
    return session


def _row(call: Call, session: FetchSession, topic: FetchTopic, wanted: FetchPartition) -> Row:
    partition, error_code = _readable(call, topic.topic, topic.topic_id, wanted.partition)
    return Row(
        session,
        topic.topic,
        topic.topic_id,
        wanted.partition,
        partition,
        wanted.fetch_offset,
        wanted.partition_max_bytes,
        wanted.current_leader_epoch,
        error_code,
    )


def _readable(call: Call, topic: str, topic_id: bytes, index: int) -> tuple[Partition | None, int]:
    """Return the partition, or the code that says why the client cannot read it."""
    try:
        if topic:
            call.check(Operation.READ, Kind.TOPIC, topic)
            return call.broker.partition(topic, index), 0
        partition = call.broker.partition_by_id(topic_id, index)
        call.check(Operation.READ, Kind.TOPIC, partition.topic)
    except ChordMQError as error:
        return None, code_of(error)
    return partition, 0


class Fetch:
    """One Fetch request under way."""

    def __init__(
        self, call: Call, request: FetchRequest, session: FetchSession, is_full: bool
    ) -> None:
        self._call = call
        self._session = session
        self._is_full = is_full
        self._min_bytes = request.min_bytes
        self._max_wait_s = request.max_wait_ms / 1000
        self._max_bytes = size_max(call, request)
        self._future: asyncio.Future[Buffers | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def answer_or_park(self) -> Buffers | asyncio.Future[Buffers | None]:
        """Return the answer if there is enough to send, else a future for it."""
        found, total, failed = self._collect()
        if total >= self._min_bytes or failed or self._max_wait_s <= 0:
            return self._finish(found)
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._unpark)
        self._timer = loop.call_later(self._max_wait_s, self._time_is_up)
        self._session.park(self)
        return self._future

    def wake(self) -> None:
        """Look again in the next turn of the loop, once for all that is written in this one."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_scheduled = False
        if self._future is not None and not self._future.done():
            found, total, failed = self._collect()
            if total >= self._min_bytes or failed:
                self._future.set_result(self._finish(found))
            else:
                self._session.park(self)

    def _time_is_up(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(self._finish(self._collect()[0]))

    def _collect(self) -> tuple[list[tuple[Row, PartitionRecords]], int, bool]:
        call, session = self._call, self._session
        acl_version = call.broker.permissions.acl.version
        if session.has_failed or session.acl_version != acl_version:
            session.acl_version = acl_version
            session.check(lambda row: _readable(call, row.topic, row.topic_id, row.index))
        return session.collect(min(self._max_bytes, affordable(call)))

    def _finish(self, found: list[tuple[Row, PartitionRecords]]) -> Buffers:
        session = self._session
        if self._call.handed_out is not None:
            for row, records in found:
                if row.partition is not None:
                    self._call.handed_out(row.partition.topic, records.buffers)
        topics = session.answer(found, self._is_full)
        if session.id == SESSIONLESS:
            session.close()
        hints = (row.leader for topic in topics for row in topic.partitions)
        nodes = addresses(self._call.broker, hints)
        return write_response(topics, self._call.version, 0, session.id, nodes)

    def _unpark(self, _: asyncio.Future[Buffers | None]) -> None:
        """Let go of timer and session, whether answered or given up because the client left."""
        if self._timer is not None:
            self._timer.cancel()
        self._session.waiter = None
        if self._session.id == SESSIONLESS:
            self._session.close()

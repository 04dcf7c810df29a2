"""Fetch requests like the last one of their connection, which are not read and checked anew.

Only those are answered here that get records at once. Whoever has to wait, or to be told of a
fault, goes the long way, as if there were no other.
"""

import asyncio
import math

from chordmq.broker.partition import NO_EPOCH
from chordmq.codecs.kafka.fetch import PartitionRecords, TopicRecords
from chordmq.codecs.kafka.fetch_form import FETCH, SESSIONS_SINCE, FetchForm, form_of
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.messages.fetch import FetchRequest
from chordmq.codecs.kafka.throttle import stamp
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.answer import Answer, Buffers
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.fetch_session import SESSIONLESS, FetchSession, Row
from chordmq.fronts.kafka.gathering import Asker
from chordmq.storage.reader import NOWHERE

MEMORY_SHARE = 8
ANSWER_SIZE_MIN = 64 * 1024
_SIZE_SIZE = 4
_CORRELATION = slice(4, 8)


def size_max(call: Call, request: FetchRequest) -> int:
    """Return the bytes of records that an answer has at most, whatever memory is free."""
    return min(request.max_bytes, call.broker.settings.fetch_max_bytes, call.fetch_size_max)


def affordable(call: Call) -> int:
    """Return a share of the memory that is free, so that slow readers cannot pile up answers."""
    return max(call.front.listener.memory.free // MEMORY_SHARE, ANSWER_SIZE_MIN)


class FetchLikeness:
    """A request for one partition, for all that follow it and only go on where it ended."""

    __slots__ = (
        "_acl_version",
        "_call",
        "_epoch",
        "_expected",
        "_form",
        "_is_patient",
        "_min_bytes",
        "_only_stable",
        "_partition",
        "_principal",
        "_row",
        "_session",
        "_size_max",
        "header",
    )

    def __init__(self, call: Call, request: FetchRequest, row: Row, form: FetchForm) -> None:
        assert row.partition is not None, "it was found readable"
        self.header = RequestHeader(FETCH, call.version, 0, call.client_id, 0)
        """What is the same for all: each has a correlation id of its own."""
        self._call = call
        self._form = form
        self._row = row
        self._partition = row.partition
        self._session = row.session
        self._epoch = request.session_epoch if call.version >= SESSIONS_SINCE else 0
        self._size_max = min(size_max(call, request), row.max_bytes)
        self._min_bytes = request.min_bytes
        self._only_stable = row.session.only_stable
        self._is_patient = row.session.is_patient
        self._principal = call.client.principal
        self._acl_version = call.broker.permissions.acl.version
        self._expected = NOWHERE
        """Where the next request goes on, if the client reads in order."""

    def knows(self, frame: memoryview, row: Row) -> bool:
        """Return whether a request that was not answered here could be, if there were records."""
        is_same = row.session is self._session or row.session.id == self._session.id == SESSIONLESS
        is_same = is_same and row.partition is self._partition
        return is_same and self._holds() and self._form.continued(frame) is not None

    def take(self, asker: Asker, frame: memoryview) -> Answer | None:
        """Answer a request if it is like this one and there is enough to send."""
        new = self._form.continued(frame)
        if new is None or not self._holds():
            return None
        row = self._row_of(new.session_epoch)
        if row is None:
            return None
        partition = self._partition
        gathering = self._call.front.gathering
        assert gathering is not None, "else nothing is remembered"
        gathering.write()  # the client may count on what it has sent before
        if not partition.log.start_offset <= new.offset < partition.high_watermark:
            return None
        buffers = self._read(new.offset)
        size = sum(map(len, buffers))
        if not size or size < self._min_bytes:
            return None
        ends = partition.high_watermark, partition.stable_offset, partition.log.start_offset
        if self._session.id != SESSIONLESS:
            self._go_on(row, new.offset, ends)
        before, after = self._form.answer(bytes(frame[_CORRELATION]), ends, size)
        return Continuation(self.header, [before, *buffers, after] if after else [before, *buffers])

    def _holds(self) -> bool:
        """Return whether all is as it was that decides who may read here."""
        call, partition = self._call, self._partition
        epoch = self._row.leader_epoch
        return (
            not partition.is_closed
            and not partition.is_absent
            and partition.is_leader
            and epoch in (NO_EPOCH, partition.leader_epoch)
            and call.client.principal is self._principal
            and call.broker.permissions.acl.version == self._acl_version
            and call.broker.members.is_alone
        )

    def _row_of(self, epoch: int) -> Row | None:
        """Return the row of a request with this epoch, or None if it means something else."""
        session = self._session
        if session.id == SESSIONLESS:
            return self._row if epoch == self._epoch else None
        if self._call.client.fetch_session is not session or session.epoch != epoch:
            return None
        row = session.only_row()
        return row if row is not None and row.partition is self._partition else None

    def _go_on(self, row: Row, offset: int, ends: tuple[int, int, int]) -> None:
        """Leave the session as a request leaves it that is read."""
        session = self._session
        session.advance()
        session.only_stable, session.is_patient = self._only_stable, self._is_patient
        row.max_bytes, row.leader_epoch = self._row.max_bytes, self._row.leader_epoch
        row.sent_watermark, row.sent_stable, row.sent_start = ends
        session.go_on(row, offset)

    def _read(self, offset: int) -> list[memoryview]:
        """Read what is there; nothing if the disk has to be waited for, or refuses."""
        partition, only_stable = self._partition, self._only_stable
        log, read_ahead = partition.log, partition.read_ahead
        size = min(self._size_max, affordable(self._call))
        if only_stable and partition.producers.transactions.aborted:
            return []
        is_in_memory = offset >= log.memory_start
        try:
            if self._is_patient and partition.awaits_disk(offset, size):
                return []
            buffers = partition.read(offset, size, only_stable=only_stable)
        except ChordMQError:
            return []
        if is_in_memory or not buffers:
            return buffers
        is_next, self._expected = offset == self._expected, log.reader.stopped_at
        # Beside other readers it would be out of the processor's cache when it is asked for.
        is_alone = read_ahead.note(self)
        if is_alone and is_next and self._expected != NOWHERE:
            limit = partition.stable_offset if only_stable else partition.high_watermark
            loop = asyncio.get_running_loop()
            loop.call_soon(read_ahead.prepare, log, self._expected, size, limit)
        return buffers


class Continuation(Answer):
    """The answer to a request like another."""

    __slots__ = ()

    def __init__(self, header: RequestHeader, buffers: Buffers) -> None:
        self.header = header
        self.head = None
        self.buffers = buffers
        self.is_ready = True

    def tell_to_wait(self, wait_s: float) -> None:
        """Let the answer, which begins with its size and head, say for how long to wait."""
        assert self.buffers, "it has records"
        version = self.header.api_version
        body = _SIZE_SIZE + len(response_head(0, FETCH, version))
        before = self.buffers[0]
        told: Buffers = [bytearray(before[body:])]
        stamp(told, FETCH, version, math.ceil(wait_s * 1000))
        self.buffers[0] = bytes(before[:body]) + told[0]


def remember(
    call: Call, frame: memoryview, body: int, request: FetchRequest, session: FetchSession
) -> None:
    """Be prepared for requests like this one, if it is for one partition that can be read."""
    client, row = call.client, session.only_row()
    if row is None or row.partition is None or call.front.gathering is None:
        return
    if isinstance(client.like, FetchLikeness) and client.like.knows(frame, row):
        return
    is_new = session.id != SESSIONLESS and request.session_epoch <= 0
    is_limited = session.nearer is not None or bool(call.broker.permissions.quotas)
    if is_new or is_limited or request.forgotten_topics_data:
        return
    if [len(topic.partitions) for topic in request.topics] != [1]:
        return
    is_again, client.fetched_from = client.fetched_from is row.partition, row.partition
    if not is_again or min(row.max_bytes, size_max(call, request)) <= 0:
        return
    answer = TopicRecords(row.topic, row.topic_id, [PartitionRecords(row.index)]), session.id
    form = form_of(frame, body, request, answer)
    client.like = None if form is None else FetchLikeness(call, request, row, form)

"""Produce requests like the last one of their connection, which are not read and admitted anew."""

import asyncio
from typing import Any

from chordmq.broker.partition import Partition
from chordmq.broker.shared import Appended
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.produce import PartitionAnswer, ProduceRequest
from chordmq.codecs.kafka.produce_form import ProduceForm, form_of
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.gathering import Asker, Gathering
from chordmq.fronts.kafka.produced import ACKS_ALL, ACKS_NONE, answered, appended, fail, fill_in

Buffers = list[Buffer]

PRODUCE = 0
ZSTD_SINCE = 7
"""Before this version, each batch has to be looked at for a compression that is not allowed."""
_CORRELATION = slice(4, 8)


class Likeness:
    """A request that was admitted, for all that follow it and differ in their batch alone."""

    __slots__ = (
        "_acks",
        "_acl_version",
        "_call",
        "_form",
        "_head_end",
        "_principal",
        "_row",
        "_timeout_ms",
        "header",
        "partition",
    )

    def __init__(
        self, call: Call, request: ProduceRequest, partition: Partition, form: ProduceForm
    ) -> None:
        self.header = RequestHeader(PRODUCE, call.version, 0, call.client_id, 0)
        """What is the same for all: each has a correlation id of its own."""
        self.partition = partition
        [row] = request.partitions
        self._row = row.topic, row.topic_id, row.index
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._call = call
        self._form = form
        self._head_end = response_head(0, PRODUCE, call.version)[4:]
        self._principal = call.client.principal
        self._acl_version = call.broker.permissions.acl.version

    def batch(self, frame: memoryview) -> memoryview | None:
        """Return the batch of a request like this one, or None if it must be looked at."""
        call = self._call
        if (
            self.partition.is_closed
            or call.client.principal is not self._principal
            or call.broker.permissions.acl.version != self._acl_version
        ):
            return None
        return self._form.batch(frame)

    def head(self, frame: memoryview) -> bytes:
        """Return what stands before the answer to a request."""
        return bytes(frame[_CORRELATION]) + self._head_end

    def gather(self, batch: memoryview, asker: Asker, place: Any, gathering: Gathering) -> None:
        """Have a batch appended at the end of the turn."""
        batches = ((self.partition, batch),)
        gathering.add(
            Repeated(self, asker, place), batches, is_quorum_needed=self._acks == ACKS_ALL
        )

    def append(self, batch: memoryview) -> Buffers | asyncio.Future[Buffers | None]:
        """Append a batch now, and answer."""
        result: Appended | ChordMQError
        try:
            result = self.partition.append(batch, is_quorum_needed=self._acks == ACKS_ALL)
        except ChordMQError as error:
            result = error
        return self.answer(result)

    def answer(self, result: Appended | ChordMQError) -> Buffers | asyncio.Future[Buffers | None]:
        """Answer a request, now or when its batch is committed."""
        call, future = self._call, None
        if not isinstance(result, ChordMQError):
            future = appended(call, self._acks, self.partition, result)
            if future is None:
                offsets = result.base_offset, result.append_time_ms, result.start_offset
                return [self._form.answer(*offsets)]
        answer = PartitionAnswer(*self._row)
        if isinstance(result, ChordMQError):
            fail(call, answer, result)
        else:
            fill_in(answer, result)
        waits = [] if future is None else [(answer, future)]
        return answered(call, [answer], waits, self._timeout_ms)


class Repeated:
    """A request like another; see `gathering.Request`."""

    __slots__ = ("_like", "_place", "_result", "asker")

    def __init__(self, like: Likeness, asker: Asker, place: Any) -> None:
        self._like = like
        self._place = place
        self._result: Appended | ChordMQError
        self.asker = asker

    def took(self, _: int, result: Appended | ChordMQError) -> None:
        """Take note of what became of the batch."""
        self._result = result

    def end(self) -> None:
        """Hand the answer over, or the future for it."""
        self.asker.fill(self._place, self._like.answer(self._result))


def remember(call: Call, frame: memoryview, request: ProduceRequest, partition: Partition) -> None:
    """Be prepared for requests like this one, if it goes where the last one went."""
    if len(request.partitions) != 1 or request.acks == ACKS_NONE or request.transactional_id:
        return
    if call.version < ZSTD_SINCE:
        return
    client = call.client
    if partition is client.produced_to and call.front.gathering is not None:
        [row] = request.partitions
        assert row.records is not None, "it has a batch"
        blank = PartitionAnswer(row.topic, row.topic_id, row.index)
        form = form_of(frame, call.version, row.records, blank)
        client.like = None if form is None else Likeness(call, request, partition, form)
    client.produced_to = partition

"""Produce requests like the last one of their connection, which are not read and admitted anew."""

import asyncio
from typing import Any

from chordmq.broker.shared import Appended
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.produce import PartitionAnswer
from chordmq.codecs.kafka.produce_form import ProduceForm, form_of
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.gathering import SMALL, Asker, Gathering
from chordmq.fronts.kafka.produce import ACKS_ALL, SmallProduce, answered, appended, fail, fill_in

Buffers = list[Buffer]

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

    def __init__(self, header: RequestHeader, small: SmallProduce, form: ProduceForm) -> None:
        self.header = header
        """That of the first request: the correlation id is not that of the others."""
        [(self.partition, answer)] = small.batches
        self._row = answer.topic, answer.topic_id, answer.index
        self._acks = small.request.acks
        self._timeout_ms = small.request.timeout_ms
        self._call = small.call
        self._form = form
        self._head_end = response_head(0, header.api_key, header.api_version)[4:]
        self._principal = small.call.client.principal
        self._acl_version = small.call.broker.permissions.acl.version

    def batch(self, frame: memoryview) -> memoryview | None:
        """Return the batch of a request like this one, or None if it must be looked at."""
        call = self._call
        if (
            len(frame) > SMALL
            or self.partition.is_closed
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


def likeness(header: RequestHeader, frame: memoryview, small: SmallProduce) -> Likeness | None:
    """Return what to compare the next requests with, if this one has a batch for one partition."""
    if len(small.request.partitions) != 1 or not small.batches:
        return None
    [row] = small.request.partitions
    assert row.records is not None, "a batch was taken"
    blank = PartitionAnswer(row.topic, row.topic_id, row.index)
    form = form_of(frame, header.api_version, row.records, blank)
    return None if form is None else Likeness(header, small, form)

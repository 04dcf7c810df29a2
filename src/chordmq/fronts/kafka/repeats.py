"""Produce requests like the last one of their connection, which are not read and admitted anew."""

from chordmq.broker.partition import Partition
from chordmq.broker.shared import Appended
from chordmq.codecs.frames import own
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.produce import PartitionAnswer, ProduceRequest
from chordmq.codecs.kafka.produce_form import ProduceForm, form_of
from chordmq.errors import ChordMQError, UnknownTopic
from chordmq.fronts.kafka.answer import Answer
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.gathering import SMALL, Asker, Gathering
from chordmq.fronts.kafka.produced import (
    ACKS_ALL,
    ACKS_NONE,
    Wait,
    answered,
    fail,
    fill_in,
    take_note,
)

PRODUCE = 0
ZSTD_SINCE = 7
"""Before this version, each batch has to be looked at for a compression that is not allowed."""
_CORRELATION = slice(4, 8)


class Likeness:
    """A request that was admitted, for all that follow it and differ in their batch alone."""

    __slots__ = (
        "_acks",
        "_acl",
        "_acl_version",
        "_call",
        "_client",
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
        self._client = call.client
        self._principal = call.client.principal
        self._acl = call.broker.permissions.acl
        self._acl_version = self._acl.version

    def batch(self, frame: memoryview) -> memoryview | None:
        """Return the batch of a request like this one, or None if it must be looked at."""
        if (
            self.partition.is_closed
            or self._client.principal is not self._principal
            or self._acl.version != self._acl_version
        ):
            return None
        return self._form.batch(frame)

    def take(self, asker: Asker, frame: memoryview) -> Answer | None:
        """Have the batch of a request like this one appended; return the place of its answer."""
        batch = self.batch(frame)
        gathering = self._call.front.gathering
        if batch is None:
            return None
        assert gathering is not None, "else nothing is remembered"
        repeated = Repeated(self, asker, frame)
        self.gather(repeated, own(batch) if len(frame) <= SMALL else batch, gathering)
        return repeated

    def gather(self, repeated: "Repeated", batch: memoryview, gathering: Gathering) -> None:
        """Have a batch appended together with others."""
        gathering.add(repeated, self.partition, batch, is_quorum_needed=self._acks == ACKS_ALL)

    def answer(self, repeated: "Repeated", result: Appended | ChordMQError) -> None:
        """Answer a request, now or when its batch is committed."""
        if isinstance(result, ChordMQError):
            self.refuse(repeated, result)
            return
        take_note(self._call, self.partition, result)
        if self._acks != ACKS_ALL or result.next_offset <= self.partition.high_watermark:
            self.confirm(repeated, result)
        elif self._call.broker.members.is_alone:
            repeated.appended = result
            self.partition.tell(result.next_offset, repeated)
        else:
            self._await(repeated, result)

    def confirm(self, repeated: "Repeated", result: Appended) -> None:
        """Answer that a batch is as safe as the client asked."""
        offsets = result.base_offset, result.append_time_ms, result.start_offset
        repeated.buffers = [self._form.answer(repeated.correlation, *offsets)]
        repeated.is_ready = True

    def refuse(self, repeated: "Repeated", error: ChordMQError) -> None:
        """Answer that a batch was not taken, or is not known to be safe."""
        answer = PartitionAnswer(*self._row)
        fail(self._call, answer, error)
        self._fill(repeated, answer, [])

    def _await(self, repeated: "Repeated", result: Appended) -> None:
        """Have the answer wait for other nodes, but no longer than the client does."""
        committed = self.partition.committed(result.next_offset)
        assert committed is not None, "it was not when it was asked"
        answer = PartitionAnswer(*self._row)
        fill_in(answer, result)
        self._fill(repeated, answer, [(answer, committed)])

    def _fill(self, repeated: "Repeated", answer: PartitionAnswer, waits: list[Wait]) -> None:
        repeated.head = repeated.correlation + self._head_end
        result = answered(self._call, [answer], waits, self._timeout_ms)
        repeated.asker.fill(repeated, result)

    def proceed(self, asker: Asker) -> None:
        """Let a client go on whose answer has become ready, with others of this turn."""
        gathering = self._call.front.gathering
        assert gathering is not None, "else nothing is remembered"
        gathering.let_proceed(asker)


class Repeated(Answer):
    """A request like another, and the place of its answer.

    See `gathering.Request`, and `commits.Waiter` for one that this node's own disk keeps waiting.
    """

    __slots__ = ("_like", "appended", "asker", "correlation")

    appended: Appended

    def __init__(self, like: Likeness, asker: Asker, frame: memoryview) -> None:
        self.header = like.header
        self.head = None
        self.buffers = None
        self.is_ready = False
        self.correlation = bytes(frame[_CORRELATION])
        self._like = like
        self.asker = asker

    def took(self, _: int, result: Appended | ChordMQError) -> None:
        """Answer, as the one batch has come to lie somewhere or was refused."""
        self._like.answer(self, result)

    def end(self) -> None:
        """Do nothing more."""

    def done(self) -> bool:
        """Return whether it is answered."""
        return self.is_ready

    def set_result(self, _: None) -> None:
        """Answer, as the batch is committed."""
        self._like.confirm(self, self.appended)
        self._like.proceed(self.asker)

    def set_exception(self, error: BaseException) -> None:
        """Answer that nobody knows whether the batch will be."""
        assert isinstance(error, ChordMQError)
        self._like.refuse(self, error)
        self._like.proceed(self.asker)

    def cancel(self) -> bool:
        """Answer that it will not be, because its topic is gone."""
        self.set_exception(UnknownTopic("the topic was deleted meanwhile"))
        return True


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

"""Produce requests like the last one of their connection, which are not read and admitted anew."""

from typing import NamedTuple

from chordmq.broker.partition import Partition
from chordmq.broker.shared import Appended
from chordmq.codecs.frames import own
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.produce import PartitionAnswer, ProduceRequest
from chordmq.codecs.kafka.produce_form import (
    CORRELATION_END,
    CORRELATION_START,
    ProduceForm,
    form_of,
)
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
PLACES_MAX = 128
"""Partitions whose requests a connection knows; each takes half a kilobyte."""
BEFORE_MAX = 1024
"""Bytes before a batch that are remembered; who sends tags without end is read each time."""
_CORRELATION = slice(CORRELATION_START, CORRELATION_END)


class Place(NamedTuple):
    """A partition that a connection has produced to, and what its requests look like."""

    partition: Partition
    form: ProduceForm
    row: tuple[str, bytes, int]
    """The topic's name and id, and the number of the partition."""


class Likeness:
    """A request that was admitted, for all that follow it and differ in their batch alone.

    Clients that write to several partitions of a topic take turns among them: requests to those
    that were admitted before are like the last one, too.
    """

    __slots__ = (
        "_acks",
        "_acl",
        "_acl_version",
        "_call",
        "_client",
        "_head_end",
        "_places",
        "_principal",
        "_size_at",
        "_timeout_ms",
        "header",
    )

    def __init__(self, call: Call, request: ProduceRequest, size_at: int) -> None:
        self.header = RequestHeader(PRODUCE, call.version, 0, call.client_id, 0)
        """What is the same for all: each has a correlation id of its own."""
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._size_at = size_at
        self._places: dict[bytes, Place] = {}
        """By what stands in a request before the size of its batch."""
        self._call = call
        self._head_end = response_head(0, PRODUCE, call.version)[4:]
        self._client = call.client
        self._principal = call.client.principal
        self._acl = call.broker.permissions.acl
        self._acl_version = self._acl.version

    def covers(self, call: Call, request: ProduceRequest, size_at: int) -> bool:
        """Return whether a request differs from this one in its topic or partition alone."""
        return (
            self._holds()
            and (call.version, call.client_id) == (self.header.api_version, self.header.client_id)
            and (request.acks, request.timeout_ms) == (self._acks, self._timeout_ms)
            and size_at == self._size_at
        )

    def add(self, place: Place) -> None:
        """Take requests to a partition from now on, if there are not too many already."""
        places, before = self._places, place.form.before
        if len(places) >= PLACES_MAX and before not in places:
            for gone in [key for key, one in places.items() if one.partition.is_closed]:
                del places[gone]
        if len(places) < PLACES_MAX or before in places:
            places[before] = place

    def _holds(self) -> bool:
        """Return whether all is as it was that decides who may write here."""
        is_same = self._client.principal is self._principal
        return is_same and self._acl.version == self._acl_version

    def take(self, asker: Asker, frame: memoryview) -> Answer | None:
        """Have the batch of a request like this one appended; return the place of its answer."""
        place = self._places.get(bytes(frame[CORRELATION_END : self._size_at]))
        if place is None or place.partition.is_closed or not self._holds():
            return None
        batch = place.form.batch(frame)
        if batch is None:
            return None
        repeated = Repeated(self, place, asker, frame)
        gathering = self._call.front.gathering
        assert gathering is not None, "else nothing is remembered"
        if len(frame) <= SMALL:
            self.gather(repeated, own(batch), gathering)
        elif asker.is_last:
            gathering.write()  # what came before stands before this in the log
            self.append(repeated, batch)
        else:
            self.gather(repeated, batch, gathering)
        return repeated

    def gather(self, repeated: "Repeated", batch: memoryview, gathering: Gathering) -> None:
        """Have a batch appended together with others."""
        partition = repeated.at.partition
        gathering.add(repeated, partition, batch, is_quorum_needed=self._acks == ACKS_ALL)

    def append(self, repeated: "Repeated", batch: memoryview) -> None:
        """Append a large batch that came alone, while it lies where it was received."""
        is_quorum_needed = self._acks == ACKS_ALL
        result: Appended | ChordMQError
        try:
            result = repeated.at.partition.append(
                batch, is_quorum_needed=is_quorum_needed, is_lent=True
            )
        except ChordMQError as error:
            result = error
        self.answer(repeated, result)

    def answer(self, repeated: "Repeated", result: Appended | ChordMQError) -> None:
        """Answer a request, now or when its batch is committed."""
        if isinstance(result, ChordMQError):
            self.refuse(repeated, result)
            return
        partition = repeated.at.partition
        take_note(self._call, partition, result)
        if self._acks != ACKS_ALL or result.next_offset <= partition.high_watermark:
            self.confirm(repeated, result)
        elif self._call.broker.members.is_alone:
            repeated.appended = result
            partition.tell(result.next_offset, repeated)
        else:
            self._await(repeated, result)

    def confirm(self, repeated: "Repeated", result: Appended) -> None:
        """Answer that a batch is as safe as the client asked."""
        offsets = result.base_offset, result.append_time_ms, result.start_offset
        repeated.buffers = [repeated.at.form.answer(repeated.correlation, *offsets)]
        repeated.is_ready = True

    def refuse(self, repeated: "Repeated", error: ChordMQError) -> None:
        """Answer that a batch was not taken, or is not known to be safe."""
        answer = PartitionAnswer(*repeated.at.row)
        fail(self._call, answer, error)
        self._fill(repeated, answer, [])

    def _await(self, repeated: "Repeated", result: Appended) -> None:
        """Have the answer wait for other nodes, but no longer than the client does."""
        committed = repeated.at.partition.committed(result.next_offset)
        assert committed is not None, "it was not when it was asked"
        answer = PartitionAnswer(*repeated.at.row)
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

    __slots__ = ("_like", "appended", "asker", "at", "correlation")

    appended: Appended

    def __init__(self, like: Likeness, at: Place, asker: Asker, frame: memoryview) -> None:
        self.header = like.header
        self.head = None
        self.buffers = None
        self.is_ready = False
        self.correlation = bytes(frame[_CORRELATION])
        self._like = like
        self.at = at
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
    """Be prepared for requests like this one, if it goes to the topic of the last one."""
    if len(request.partitions) != 1 or request.acks == ACKS_NONE:
        return
    if call.version < ZSTD_SINCE or request.transactional_id is not None:
        return
    client = call.client
    before, client.produced_to = client.produced_to, partition
    if before is None or before.topic != partition.topic or call.front.gathering is None:
        return
    [row] = request.partitions
    assert row.records is not None, "it has a batch"
    names = row.topic, row.topic_id, row.index
    form = form_of(frame, call.version, row.records, PartitionAnswer(*names))
    if form is None or len(form.before) > BEFORE_MAX:
        client.like = None
        return
    like = client.like
    if not isinstance(like, Likeness) or not like.covers(call, request, form.size_at):
        like = client.like = Likeness(call, request, form.size_at)
    like.add(Place(partition, form, names))

"""ShareFetch and ShareAcknowledge: records for one of many consumers, and their answers."""

import asyncio
from collections.abc import Iterable, Sequence

from chordmq.broker.cursors.cursor import READ_BYTES, Answer, Cursor
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages import share_acknowledge as acknowledge_messages
from chordmq.codecs.kafka.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from chordmq.codecs.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from chordmq.errors import (
    ChordMQError,
    InvalidRequest,
    InvalidShareSessionEpoch,
    UnknownTopic,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of
from chordmq.fronts.kafka.share_session import FINAL_EPOCH, FIRST_EPOCH, Place, ShareSession

IN_BATCHES = 0
MEMORY_SHARE = 8
ANSWER_SIZE_MIN = 64 * 1024

Batch = AcknowledgementBatch | acknowledge_messages.AcknowledgementBatch
Answers = dict[Place, list[Batch]]


async def share_fetch(call: Call, request: ShareFetchRequest) -> ShareFetchResponse:
    """Take a consumer's answers, then give it more records as soon as there are any."""
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id or "")
        answers = _answers_of_fetch(request)
        session = _enter(call, request)
        refused = await _settle(call, session, answers, may_renew=request.is_renew_ack)
    except ChordMQError as error:
        return ShareFetchResponse(error_code=code_of(error), error_message=reason_of(error))
    rows = {place: PartitionData(place[1], records=b"") for place in answers}
    for place, refusal in refused.items():
        rows[place].acknowledge_error_code = code_of(refusal)
        rows[place].acknowledge_error_message = reason_of(refusal)
    if request.share_session_epoch == FINAL_EPOCH:
        call.front.share_sessions.end(session, call.broker.cursors)
    elif request.max_records > 0 and not request.is_renew_ack:
        await ShareFetch(call, request, session, rows).run(is_urgent=bool(refused))
    topics: dict[bytes, list[PartitionData]] = {}
    for (topic_id, _), row in rows.items():
        topics.setdefault(topic_id, []).append(row)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=_lock_ms(call, session),
        responses=[ShareFetchableTopicResponse(*topic) for topic in topics.items()],
    )


async def share_acknowledge(
    call: Call, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Take a consumer's answers; what is confirmed is in the log."""
    answers = _answers(request)
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id or "")
        if request.share_session_epoch == FIRST_EPOCH:
            raise InvalidShareSessionEpoch("a session begins with a fetch")
        session = _enter(call, request)
        refused = await _settle(call, session, answers, may_renew=request.is_renew_ack)
    except ChordMQError as error:
        return ShareAcknowledgeResponse(error_code=code_of(error), error_message=reason_of(error))
    if request.share_session_epoch == FINAL_EPOCH:
        call.front.share_sessions.end(session, call.broker.cursors)
    topics: dict[bytes, list[acknowledge_messages.PartitionData]] = {}
    for topic_id, index in answers:
        row = acknowledge_messages.PartitionData(partition_index=index)
        refusal = refused.get((topic_id, index))
        if refusal is not None:
            row.error_code, row.error_message = code_of(refusal), reason_of(refusal)
        topics.setdefault(topic_id, []).append(row)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=_lock_ms(call, session),
        responses=[ShareAcknowledgeTopicResponse(*topic) for topic in topics.items()],
    )


def _answers(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Answers:
    """Return all answers about each partition, also if a request names it more than once."""
    answers: Answers = {}
    for topic in request.topics:
        for row in topic.partitions:
            answers.setdefault((topic.topic_id, row.partition_index), []).extend(
                row.acknowledgement_batches
            )
    return answers


def _answers_of_fetch(request: ShareFetchRequest) -> Answers:
    answers = {place: batches for place, batches in _answers(request).items() if batches}
    if answers and request.share_session_epoch == FIRST_EPOCH:
        raise InvalidRequest("The first fetch of a session has nothing to acknowledge.")
    if request.is_renew_ack and (request.max_records or request.max_bytes or request.max_wait_ms):
        raise InvalidRequest("A fetch that renews does not ask for records.")
    return answers


def _enter(call: Call, request: ShareFetchRequest | ShareAcknowledgeRequest) -> ShareSession:
    session = call.front.share_sessions.enter(
        request.group_id or "", request.member_id or "", request.share_session_epoch, call.client
    )
    if isinstance(request, ShareFetchRequest):
        session.put(
            (topic.topic_id, row.partition_index)
            for topic in request.topics
            for row in topic.partitions
        )
        session.forget(
            (topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        )
    return session


async def _settle(
    call: Call, session: ShareSession, answers: Answers, *, may_renew: bool
) -> dict[Place, ChordMQError]:
    """Settle what a consumer answers; return the partitions where that failed, and why."""
    refused: dict[Place, ChordMQError] = {}
    stored: list[tuple[Place, asyncio.Future[None]]] = []
    may_renew = may_renew and (
        call.broker.group_settings.of(session.group).share_renew_acknowledge_enable
    )
    for place, batches in answers.items():
        try:
            checked = _checked(batches, may_renew=may_renew)
            stored.append(
                (place, _cursor(call, session, place).settle_all(session.member, checked))
            )
        except ChordMQError as error:
            refused[place] = error
    for place, future in stored:
        try:
            await future
        except ChordMQError as error:
            refused[place] = error
    return refused


def _checked(batches: Iterable[Batch], *, may_renew: bool) -> list[Answer]:
    """Return the answers of one partition; they must be in order and not overlap."""
    found: list[Answer] = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or (found and first <= found[-1].last):
            raise InvalidRequest("The offsets to acknowledge are not in order.")
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest(f"{len(types)} acknowledgements for {last - first + 1} records.")
        highest = Outcome.RENEW if may_renew else Outcome.REJECT
        if not all(Outcome.GAP <= kind <= highest for kind in types):
            raise InvalidRequest("There is no such kind of acknowledgement here.")
        found.append(Answer(first, last, [Outcome(kind) for kind in types]))
    return found


def _cursor(call: Call, session: ShareSession, place: Place) -> Cursor:
    """Return the group's cursor if the client may read the partition."""
    partition = call.broker.partition_by_id(*place)
    topic = partition.topic
    call.check(Operation.READ, Kind.TOPIC, topic)
    partition.check_leading()
    cursor = call.broker.cursors.find(session.group, *place)
    if cursor is None:
        raise UnknownTopic(f"group {session.group} does not read {topic}-{place[1]}")
    return cursor


def _lock_ms(call: Call, session: ShareSession) -> int:
    return call.broker.group_settings.of(session.group).share_record_lock_duration_ms


class ShareFetch:
    """One ShareFetch request under way; it is woken by the cursors it waits for."""

    def __init__(
        self,
        call: Call,
        request: ShareFetchRequest,
        session: ShareSession,
        rows: dict[Place, PartitionData],
    ) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._rows = rows
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look again in the next turn of the loop."""
        self._woken.set()

    async def run(self, *, is_urgent: bool) -> None:
        """Fill the rows, at the latest when the wait is over; at once if it is urgent."""
        wait_s = 0.0 if is_urgent else self._request.max_wait_ms / 1000
        cursors = self._cursors()
        try:
            async with asyncio.timeout(wait_s):
                while not (self._has_enough(cursors) and self._take(cursors)):
                    self._woken.clear()
                    for cursor in cursors.values():
                        cursor.wait(self)
                    await self._woken.wait()
                    cursors = self._cursors()
        except TimeoutError:
            self._take(cursors)
        finally:
            for cursor in cursors.values():
                cursor.forget(self)

    def _cursors(self) -> dict[Place, Cursor]:
        """Return the cursors to take from; note the error of every partition that has none."""
        found = {}
        for place in self._session.places:
            try:
                found[place] = _cursor(self._call, self._session, place)
            except ChordMQError as error:
                row = self._row(place)
                row.error_code, row.error_message = code_of(error), reason_of(error)
        return found

    def _row(self, place: Place) -> PartitionData:
        return self._rows.setdefault(place, PartitionData(place[1], records=b""))

    def _has_enough(self, cursors: dict[Place, Cursor]) -> bool:
        """Return whether there may be as many bytes as the consumer wants to wait for."""
        wanted = min(self._request.min_bytes, self._size_max, READ_BYTES)
        if wanted <= 1 or self._has_errors:
            return True
        found = (cursor.available_bytes(self._size_max) for cursor in cursors.values())
        return sum(found) >= wanted

    @property
    def _has_errors(self) -> bool:
        return any(row.error_code for row in self._rows.values())

    @property
    def _size_max(self) -> int:
        # A share of the memory that is free, so that slow readers cannot pile up answers.
        free = max(self._call.front.listener.memory.free // MEMORY_SHARE, ANSWER_SIZE_MIN)
        return max(
            min(self._request.max_bytes, self._call.broker.settings.fetch_max_bytes, free), 1
        )

    def _take(self, cursors: dict[Place, Cursor]) -> bool:
        """Take what is there; return whether that, or an error, is worth an answer."""
        in_batches = self._request.share_acquire_mode == IN_BATCHES
        size_left, count_left = self._size_max, self._request.max_records
        for place, cursor in cursors.items():
            if size_left <= 0 or count_left <= 0:
                break
            try:
                given = cursor.take(
                    self._session.member, count_left, size_left, in_batches=in_batches
                )
            except ChordMQError as error:
                row = self._row(place)
                row.error_code, row.error_message = code_of(error), reason_of(error)
                continue
            if given.taken:
                row = self._row(place)
                row.records = b"".join(given.batches)
                if self._call.handed_out is not None:
                    self._call.handed_out(cursor.partition.topic, given.batches)
                row.acquired_records = _acquired(given.taken)
                size_left -= len(row.records)
                count_left -= sum(part.last - part.first + 1 for part in given.taken)
                self._session.served(place)
        return count_left < self._request.max_records or self._has_errors


def _acquired(taken: Sequence[tuple[int, int, int]]) -> list[AcquiredRecords]:
    return [AcquiredRecords(first, last, deliveries) for first, last, deliveries in taken]

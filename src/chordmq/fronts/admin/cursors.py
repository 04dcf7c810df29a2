"""A shared index over HTTP: several consumers take records of a topic, each record one of them."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chordmq.broker.cursors.cursor import Answer
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.topic import Topic
from chordmq.codecs.texts import Shown
from chordmq.errors import InvalidRecordState, InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import Index, Offset, StoredRecord, from_record
from chordmq.fronts.admin.records import PARTITIONS_FOLLOWED_MAX, READ_BYTES_MAX, WAIT_MS_MAX

ANSWERS_MAX = 10_000
OUTCOMES = {
    "accept": Outcome.ACCEPT,
    "release": Outcome.RELEASE,
    "reject": Outcome.REJECT,
    "renew": Outcome.RENEW,
}

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Take(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Who takes how many records; they come free again unless they are settled in time."""

    consumer: Name
    start: Annotated[
        Literal["earliest", "latest"], Meta(description="Where a new cursor begins.")
    ] = "earliest"
    max_records: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=READ_BYTES_MAX)] = 1024 * 1024
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0
    encoding: Shown = "auto"


class TakenRecord(msgspec.Struct, frozen=True):
    """A record, and for the how-manieth time it is given."""

    deliveries: int
    record: StoredRecord


class TakenRecords(msgspec.Struct, frozen=True):
    """What the consumer holds now."""

    records: list[TakenRecord]


class Settled(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What becomes of the records from `first` to `last`."""

    partition: Index
    first: Offset
    last: Offset
    outcome: Annotated[
        Literal["accept", "release", "reject", "renew"],
        Meta(description="Done; give it to others; nobody can process it; more time."),
    ] = "accept"


class Settle(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A consumer's answers; those of a partition count together or not at all."""

    consumer: Name
    answers: Annotated[list[Settled], Meta(min_length=1, max_length=ANSWERS_MAX)]


class Bell:
    """Waits at several cursors for the first that may have something to take."""

    def __init__(self, cursors: Sequence[GroupIndex]) -> None:
        self._cursors = cursors
        self._rung = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Return whether a cursor woke us in time."""
        self._rung.clear()
        for cursor in self._cursors:
            cursor.wait(self)
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        finally:
            for cursor in self._cursors:
                cursor.forget(self)
        return True

    def wake(self) -> None:
        """Take note that there may be more."""
        self._rung.set()


async def take(call: Call, body: Take) -> TakenRecords:
    """Take records that no other consumer of the cursor has; wait for the first if told to."""
    call.delivers()
    cursors = await _open(call, body)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + body.wait_ms / 1000
    holder = _holder(call, body.consumer)
    found = await _take(call, cursors, holder, body)
    while not found and (left_s := deadline_s - loop.time()) > 0:
        if not await Bell(cursors).wait(left_s):
            break
        found = await _take(call, cursors, holder, body)
    return TakenRecords(found)


async def settle(call: Call, body: Settle) -> None:
    """Say what became of records; answers when that would survive a crash."""
    call.request.state.is_traffic = True
    topic = _readable(call)
    by_partition: dict[int, list[Answer]] = {}
    for one in body.answers:
        if one.last < one.first:
            raise InvalidRequest(f"no offsets lie between {one.first} and {one.last}")
        answer = Answer(one.first, one.last, [OUTCOMES[one.outcome]])
        by_partition.setdefault(one.partition, []).append(answer)
    holder = _holder(call, body.consumer)
    stored = []
    for index, answers in by_partition.items():
        cursor = call.broker.cursors.reach(call.path("cursor"), topic.name, index)
        if cursor is None:
            raise InvalidRecordState(f"nothing was taken from partition {index}")
        stored.append(cursor.settle_all(holder, answers))
    await asyncio.gather(*stored)


async def _open(call: Call, body: Take) -> list[GroupIndex]:
    call.request.state.is_traffic = True
    topic = _readable(call)
    if len(topic.partitions) > PARTITIONS_FOLLOWED_MAX:
        raise InvalidRequest(f"a cursor follows {PARTITIONS_FOLLOWED_MAX} partitions at most")
    start_ms = EARLIEST if body.start == "earliest" else LATEST
    return [
        await call.broker.cursors.open(
            call.path("cursor"), topic.name, index, start_ms=start_ms, is_bound=False
        )
        for index in range(len(topic.partitions))
    ]


def _readable(call: Call) -> Topic:
    call.check(Operation.READ, Kind.GROUP, call.path("cursor"))
    call.check(Operation.READ, Kind.TOPIC, call.path("topic"))
    return call.broker.topics.get(call.path("topic"))


def _holder(call: Call, consumer: str) -> str:
    """Return who holds records: nobody can settle those of another user's consumer."""
    return f"http/{call.principal.name}/{consumer}"


async def _take(
    call: Call, cursors: Sequence[GroupIndex], holder: str, body: Take
) -> list[TakenRecord]:
    found: list[TakenRecord] = []
    bytes_left = body.max_bytes
    for cursor in cursors:
        delivery = await cursor.take_now(holder, body.max_records - len(found), bytes_left)
        taken = list(delivery.records())
        counts = {record.offset: deliveries for record, deliveries in taken}
        partition = cursor.partition
        found += [
            TakenRecord(counts[one.offset], from_record(partition.index, one, body.encoding))
            for one in partition.delivered([record for record, _ in taken])
        ]
        call.hold(delivery.size)
        bytes_left -= delivery.size
        if len(found) >= body.max_records or bytes_left <= 0:
            break
    return found


ROUTES = [
    Api("POST", "/v1/topics/{topic}/cursors/{cursor}/take", take),
    Api("POST", "/v1/topics/{topic}/cursors/{cursor}/settle", settle),
]

"""Records over HTTP: publish one or many, read from a place on, drop old ones."""

import asyncio
import itertools
from contextlib import closing
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response

from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.feed import (
    Feed,
    Found,
    Offsets,
    read_position,
    write_position,
)
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.quotas import Limit
from chordmq.broker.topic import Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.texts import Shown, from_base64
from chordmq.errors import (
    ChordMQError,
    InvalidEnvelope,
    InvalidRecord,
    InvalidRequest,
    PolicyViolation,
)
from chordmq.fronts.admin.api import Api, as_json
from chordmq.fronts.admin.call import JSON, OCTETS, Call, read_json
from chordmq.fronts.admin.envelopes import Buried, PublishQuery, bury, enveloped
from chordmq.fronts.admin.mapping import (
    Index,
    Offset,
    RecordToPublish,
    StoredRecord,
    from_record,
    to_record,
)
from chordmq.records.record import NewRecord
from chordmq.tracing.parents import TRACEPARENT, parent_of

READ_BYTES_MAX = 16 * 1024 * 1024
WAIT_MS_MAX = 60_000
PARTITIONS_FOLLOWED_MAX = 100
FETCH_WAIT_S = 5.0
"""For what another node has and this one has not yet."""
RAW_PREFIX = "chordmq-"
RAW_HEADER_PREFIX = "chordmq-header-"

_turns = itertools.count()


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a record came to lie, or why it did not."""

    partition: Index
    offset: Offset | None = None
    error: str | None = None
    message: str | None = None
    dead_letter: (
        Annotated[str, Meta(description="The topic of the place, if the record was put aside.")]
        | None
    ) = None


class PublishedRecords(msgspec.Struct, frozen=True):
    """One row for each record, in the order of the request."""

    records: list[Published]


class Place(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which partitions are read, and from where on."""

    partition: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,9}(,[0-9]{1,9})*$", description="One or some, `0,2`; else all."
            ),
        ]
        | None
    ) = None
    position: (
        Annotated[
            str,
            Meta(
                pattern=r"^(earliest|latest|[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*)$",
                description="`earliest`, `latest`, or the `position` that an answer ended with.",
            ),
        ]
        | None
    ) = None
    offset: Annotated[Offset, Meta(description="The first offset, in one partition.")] | None = None
    timestamp: (
        Annotated[
            int, Meta(ge=0, le=2**63 - 1, description="Begin with records of this time, in ms.")
        ]
        | None
    ) = None
    group: (
        Annotated[str, Meta(description="Begin where this group has committed, if it has.")] | None
    ) = None
    encoding: Annotated[Shown, Meta(description="How bytes are shown where possible.")] = "auto"


class ReadQuery(Place, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is read at once, and how long to wait for the first record."""

    max_records: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=READ_BYTES_MAX)] = 1024 * 1024
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0


class ReadRecords(msgspec.Struct, frozen=True):
    """Records, and where to go on reading."""

    records: list[StoredRecord]
    position: str
    end: Annotated[str, Meta(description="The position after the newest committed records.")]


class DropQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which records go: those before an offset of a partition; without one, all."""

    partition: Index
    before: Offset | None = None


class Dropped(msgspec.Struct, frozen=True):
    """What is left of a partition."""

    partition: Index
    start_offset: Offset


async def publish(call: Call, query: PublishQuery) -> Response:
    """Append records; answers when they are as durable as the topic's settings ask.

    A JSON object is one record, an array several; those for one partition become one batch, which
    is stored as a whole or not at all. An `application/octet-stream` is the value of one record as
    it is; its headers `Chordmq-Key` (or `Chordmq-Key-Base64`), `Chordmq-Partition`,
    `Chordmq-Timestamp` and `Chordmq-Header-<name>` say the rest. With `envelope`, values are
    messages in an envelope (`schema/envelope.json`). Where the records of one request fare
    differently, the answer is 207.
    """
    name = call.path("topic")
    call.check(Operation.WRITE, Kind.TOPIC, name)
    topic = call.broker.topics.get(name)
    if topic.is_internal:
        raise PolicyViolation(f"{name} is the broker's own; clients may only read it")
    call.request.state.is_traffic = True  # the audit trail takes samples of it at most
    call.meter.refuse_debtor(Limit.PRODUCE)
    pairs = _traced(call, await _wanted(call))
    faults: dict[int, InvalidEnvelope] = {}
    if query.envelope is not None:
        records, faults = enveloped(call, query, name, [record for _, record in pairs])
        pairs = [(asked, record) for (asked, _), record in zip(pairs, records, strict=True)]
    turn = next(_turns)
    by_partition: dict[int, list[NewRecord]] = {}
    places: list[tuple[int, int]] = []
    for number, (asked, record) in enumerate(pairs):
        if number not in faults:
            index = _partition_of(topic, asked, record, turn)
            rows = by_partition.setdefault(index, [])
            places.append((index, len(rows)))
            rows.append(record)
    bad = {number: (pairs[number][1], fault) for number, fault in faults.items()}
    buried = await bury(call, name, bad) if bad else {}
    return await _append(call, topic, by_partition, places, buried)


async def _append(
    call: Call,
    topic: Topic,
    by_partition: dict[int, list[NewRecord]],
    places: list[tuple[int, int]],
    buried: dict[int, Buried],
) -> Response:
    appends = call.shared.appends
    offsets = await asyncio.gather(
        *(appends.append(topic.partitions[index], rows) for index, rows in by_partition.items()),
        return_exceptions=True,
    )
    results = dict(zip(by_partition, offsets, strict=True))
    failures = [result for result in offsets if isinstance(result, BaseException)]
    for failure in failures:
        if len(failures) == len(offsets) or not isinstance(failure, ChordMQError):
            raise failure
    _audit(call, topic, results)
    rows = [_published(index, at, results[index]) for index, at in places]
    for number, one in sorted(buried.items()):
        fault = (InvalidEnvelope.__name__, one.reason, one.topic)
        rows.insert(number, Published(one.partition, one.offset, *fault))
    is_whole = not (failures or buried)
    return as_json(PublishedRecords(rows), HTTPStatus.OK if is_whole else HTTPStatus.MULTI_STATUS)


def _audit(call: Call, topic: Topic, results: dict[int, int | BaseException]) -> None:
    audit = call.broker.audit
    for index, offset in results.items():
        if audit.sample and isinstance(offset, int) and audit.is_sampled():
            place = f"{topic.name}-{index} offset {offset}"
            who = f"User:{call.principal.name}"
            audit.record(who=who, host=call.host, act="publish", obj=place)


def _published(index: int, at: int, result: int | BaseException) -> Published:
    if isinstance(result, BaseException):
        return Published(index, None, type(result).__name__, str(result))
    return Published(index, result + at)


RawRecord = tuple[int | None, NewRecord]


def _traced(call: Call, pairs: list[RawRecord]) -> list[RawRecord]:
    """Have the records carry the trace of their request, unless they say one themselves."""
    parent = call.request.headers.get(TRACEPARENT)
    if parent is None:
        return pairs
    header = (TRACEPARENT, parent.encode("latin-1"))
    return [
        (index, record if parent_of(record.headers) else _with_header(record, header))
        for index, record in pairs
    ]


def _with_header(record: NewRecord, header: tuple[str, bytes]) -> NewRecord:
    return record._replace(headers=(*record.headers, header))


async def _wanted(call: Call) -> list[RawRecord]:
    if call.media == OCTETS:
        body = await call.octets()
        call.meter.produced += len(body)
        return [_raw(call, body)]
    if call.media != JSON:
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {JSON} or {OCTETS}"
        )
    body = await call.octets()
    call.meter.produced += len(body)
    read = read_json(body, RecordToPublish | list[RecordToPublish])  # type: ignore[arg-type]
    wanted: list[RecordToPublish] = read if isinstance(read, list) else [read]
    limit = call.shared.settings.batch_records_max
    if not wanted:
        raise InvalidRequest("no record")
    if len(wanted) > limit:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {limit} records")
    now_ms = call.broker.clock.now_ms()
    return [(one.partition, to_record(one, now_ms)) for one in wanted]


def _raw(call: Call, value: bytes) -> RawRecord:
    """Return the record that a body and its HTTP headers are."""
    key: bytes | None = None
    headers: list[tuple[str, bytes]] = []
    timestamp, partition = call.broker.clock.now_ms(), None
    for raw_name, data in call.request.headers.raw:
        name = raw_name.decode("latin-1").lower()
        if name == f"{RAW_PREFIX}key":
            key = data
        elif name == f"{RAW_PREFIX}key-base64":
            key = from_base64(data.decode("latin-1"))
        elif name == f"{RAW_PREFIX}partition":
            partition = _number(name, data)
        elif name == f"{RAW_PREFIX}timestamp":
            timestamp = _number(name, data)
        elif name.startswith(RAW_HEADER_PREFIX):
            headers.append((name.removeprefix(RAW_HEADER_PREFIX), data))
    return partition, NewRecord(timestamp, key, value, tuple(headers))


def _number(name: str, data: bytes) -> int:
    if not (data.isdigit() and len(data) < len(str(2**63))):
        raise InvalidRecord(f"{name} is not a number")
    return int(data)


def _partition_of(topic: Topic, asked: int | None, record: NewRecord, turn: int) -> int:
    """Return the partition asked for, or that of the key as Kafka's clients choose it."""
    count = len(topic.partitions)
    if asked is None:
        return turn % count if record.key is None else partition_for_key(record.key, count)
    if asked >= count:
        raise InvalidRequest(f"{topic.name} has {count} partitions, not {asked}")
    return asked


async def read(call: Call, query: ReadQuery) -> ReadRecords:
    """Return records from a place on; with `wait_ms`, wait until there is at least one.

    Only what is committed is shown, and nothing of aborted transactions.
    """
    call.delivers()
    partitions = readable(call, query)
    count_max = min(query.max_records, call.shared.settings.batch_records_max)
    feed = Feed(partitions, await starts(call, partitions, query))
    extents = await call.broker.bounds.of(partitions.values())
    ends = {partition.index: extent.end for partition, extent in extents.items()}
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + query.wait_ms / 1000
    with call.living_by_login(feed.wake), closing(feed):
        await feed.reach(ends, query.max_bytes, FETCH_WAIT_S)
        found = feed.take(count_max, query.max_bytes)
        while not found and (left_s := deadline_s - loop.time()) > 0 and await feed.more(left_s):
            call.check_login()
            found = feed.take(count_max, query.max_bytes)
    ends = {index: max(end, feed.offsets[index]) for index, end in ends.items()}
    return _answer(call, query.encoding, found, feed, ends)


def _answer(call: Call, shown: Shown, found: list[Found], feed: Feed, ends: Offsets) -> ReadRecords:
    call.hold(sum(len(one.record.value or b"") for one in found))
    return ReadRecords(
        records=[from_record(one.partition, one.record, shown) for one in found],
        position=write_position(feed.offsets),
        end=write_position(ends),
    )


def readable(call: Call, place: Place) -> dict[int, Partition]:
    """Return the partitions that a client wants to read and may."""
    name = call.path("topic")
    call.check(Operation.READ, Kind.TOPIC, name)
    topic = call.broker.topics.get(name)
    if place.partition is None:
        indexes = list(range(len(topic.partitions)))
    else:
        indexes = sorted({int(part) for part in place.partition.split(",")})
    if len(indexes) > PARTITIONS_FOLLOWED_MAX:
        raise InvalidRequest(f"name the partitions; at most {PARTITIONS_FOLLOWED_MAX} at once")
    return {index: call.broker.partition(name, index) for index in indexes}


async def starts(call: Call, partitions: dict[int, Partition], place: Place) -> Offsets:
    """Return where to begin in each partition."""
    if sum(one is not None for one in (place.position, place.offset, place.timestamp)) > 1:
        raise InvalidRequest("position, offset and timestamp exclude each other")
    if place.offset is not None:
        if len(partitions) != 1:
            raise InvalidRequest("an offset is of one partition; name it with partition")
        return dict.fromkeys(partitions, place.offset)
    if place.timestamp is not None:
        return await call.broker.bounds.starts(partitions.values(), place.timestamp)
    if place.position not in (None, "earliest", "latest"):
        given = read_position(place.position or "")
        # A partition that is not in the position was added since.
        return {index: given.get(index, 0) for index in partitions}
    start_ms = LATEST if place.position == "latest" else EARLIEST
    found = await call.broker.bounds.starts(partitions.values(), start_ms)
    if place.group is not None:
        found |= await _committed(call, place.group, partitions)
    return found


async def _committed(call: Call, group: str, partitions: dict[int, Partition]) -> Offsets:
    call.check(Operation.READ, Kind.GROUP, group)
    committed = await call.broker.group_reach.committed(group)
    topic = call.path("topic")
    return {index: committed[topic, index] for index in partitions if (topic, index) in committed}


async def drop(call: Call, query: DropQuery) -> Dropped:
    """Delete the records before an offset, or all that are committed."""
    name = call.path("topic")
    call.check(Operation.DELETE, Kind.TOPIC, name)
    partition = call.broker.partition(name, query.partition)
    topic = call.broker.topics.get(name)
    if topic.is_internal:
        raise PolicyViolation(f"{name} is the broker's own")
    if topic.settings.cleanup_policy == ("compact",):
        raise PolicyViolation("a topic that is only compacted keeps its newest records")
    start = await partition.delete_records(-1 if query.before is None else query.before)
    return Dropped(query.partition, start)


ROUTES = [
    Api(
        "POST",
        "/v1/topics/{topic}/records",
        publish,
        takes={JSON: RecordToPublish | list[RecordToPublish], OCTETS: bytes},
        answers={
            HTTPStatus.OK: {JSON: PublishedRecords},
            HTTPStatus.MULTI_STATUS: {JSON: PublishedRecords},
        },
    ),
    Api("GET", "/v1/topics/{topic}/records", read),
    Api("DELETE", "/v1/topics/{topic}/records", drop),
]

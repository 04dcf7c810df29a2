"""Batches over HTTP as they are stored: for nodes that copy topics of others."""

import asyncio
from contextlib import closing
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from chordmq.broker.feed import Feed, visible
from chordmq.broker.partition import Partition
from chordmq.broker.read_ahead import DISK_WAIT_S
from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import InvalidRequest, OffsetOutOfRange
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import Offset
from chordmq.fronts.admin.sending import Paced

BATCHES = "application/vnd.chordmq.batches"
READ_BYTES_MAX = 16 * 1024 * 1024
WAIT_MS_MAX = 60_000


class BatchesQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """From where on batches are read, how much at once, and how long to wait for the first."""

    offset: Offset = 0
    max_bytes: Annotated[int, Meta(ge=1, le=READ_BYTES_MAX)] = 1024 * 1024
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0


async def read_batches(call: Call, query: BatchesQuery) -> Response:
    """Return whole record batches (Kafka's format v2), compressed as they are stored.

    The first batch may begin before the offset. `Chordmq-Next-Offset` says where to go on, after
    what was deleted, aborted or no data; `Chordmq-End-Offset` where the partition ends.
    """
    call.delivers()
    partition = readable(call)
    feed = Feed({0: partition}, {0: query.offset})
    if query.offset > partition.log.end_offset:
        end = partition.log.end_offset
        raise OffsetOutOfRange(f"{partition.topic} ends at {end}, before {query.offset}")
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + query.wait_ms / 1000
    with call.living_by_login(feed.wake), closing(feed):
        feed.skip_gaps()
        await feed.reach({0: feed.offsets[0]}, query.max_bytes, DISK_WAIT_S)
        found, following = _take(partition, feed.offsets[0], query.max_bytes)
        while not found and (left_s := deadline_s - loop.time()) > 0:
            feed.offsets[0] = following
            if not await feed.more(left_s):
                break
            call.check_login()
            feed.skip_gaps()
            found, following = _take(partition, feed.offsets[0], query.max_bytes)
    call.hold(sum(map(len, found)))
    headers = {
        "chordmq-next-offset": str(following),
        "chordmq-end-offset": str(partition.stable_offset),
    }
    return Paced(b"".join(found), headers=headers, media_type=BATCHES)


def _take(partition: Partition, offset: int, max_bytes: int) -> tuple[list[memoryview], int]:
    """Return batches that clients may see, and the offset after all that was looked at."""
    found = []
    buffers = partition.read(offset, max_bytes, only_stable=True)
    for header, batch in visible(partition, offset, buffers):
        if batch is not None:
            found.append(batch)
        offset = header.next_offset
    return found, offset


def readable(call: Call) -> Partition:
    """Return the partition in the path, if the client may read it here."""
    call.check(Operation.READ, Kind.TOPIC, call.path("topic"))
    partition = partition_of(call)
    partition.check_leading()
    return partition


def partition_of(call: Call) -> Partition:
    """Return the partition in the path."""
    return call.broker.partition(call.path("topic"), _index(call))


def _index(call: Call) -> int:
    text = call.path("partition")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest(f"{text[:20]!r} is no partition")
    return int(text)


ROUTES = [
    Api(
        "GET",
        "/v1/topics/{topic}/partitions/{partition}/batches",
        read_batches,
        answers={HTTPStatus.OK: {BATCHES: bytes}},
    ),
]

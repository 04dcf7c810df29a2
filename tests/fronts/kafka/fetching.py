"""A consumer of one partition that chooses itself what it asks for."""

import struct
from dataclasses import dataclass, replace
from typing import Any

from chordmq.broker.partition import Partition
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.fetch import TOPIC_IDS_SINCE
from chordmq.codecs.kafka.fetch_form import SESSIONS_SINCE
from chordmq.codecs.kafka.header import response_head
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.records.record import NewRecord, build_batch, read_records
from tests.fronts.kafka.wire import Wire, framed

ROOM = 3000
"""Bytes of a partition that the consumer takes: six records of `write`."""


@dataclass(frozen=True)
class Sent:
    """A Fetch request of one consumer, who reads a partition in order."""

    version: int = 12
    offset: int = 0
    session: tuple[int, int] = (0, -1)
    min_bytes: int = 1
    max_wait_ms: int = 0
    leader_epoch: int = -1
    isolation: int = 0
    topic_id: bytes = bytes(16)

    def frame(self) -> bytes:
        by_id = self.version >= TOPIC_IDS_SINCE
        row = FetchPartition(
            partition=0,
            fetch_offset=self.offset,
            partition_max_bytes=ROOM,
            current_leader_epoch=self.leader_epoch,
        )
        topic = FetchTopic(topic="" if by_id else "t", topic_id=self.topic_id, partitions=[row])
        has_sessions = self.version >= SESSIONS_SINCE
        request = FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            isolation_level=self.isolation,
            session_id=self.session[0] if has_sessions else 0,
            session_epoch=self.session[1] if has_sessions else -1,
            topics=[topic],
        )
        return framed(request, self.version)


@dataclass(frozen=True)
class Got:
    """What a consumer was answered."""

    error: int
    values: list[bytes | None]
    next_offset: int
    watermark: int = -1


async def got(wire: Wire, version: int = 12) -> tuple[FetchResponse, Got]:
    head = len(response_head(0, 1, version))
    response: FetchResponse = schema.decode(FetchResponse, version, await wire.receive(), head)
    if response.error_code or not response.responses:
        return response, Got(response.error_code, [], 0)
    [row] = response.responses[0].partitions
    records = list(read_records_of(row.records or b""))
    after = records[-1].offset + 1 if records else 0
    values = [record.value for record in records]
    return response, Got(row.error_code, values, after, row.high_watermark)


def read_records_of(data: Any) -> list[Any]:
    view, records = memoryview(data), []
    while view:
        (length,) = struct.unpack_from(">i", view, 8)
        records += read_records(view[: 12 + length])
        view = view[12 + length :]
    return records


async def asked(wire: Wire, sent: Sent) -> Got:
    await wire.send(sent.frame())
    return (await got(wire, sent.version))[1]


def write(partition: Partition, count: int = 40) -> list[bytes]:
    values = [b"%04d" % number * 100 for number in range(count)]
    for value in values:
        partition.append(memoryview(build_batch([NewRecord(now(partition), None, value)])))
    return values


def now(partition: Partition) -> int:
    return partition.log._clock.now_ms()


def plain(front: KafkaFront, version: int) -> Sent:
    by_id = version >= TOPIC_IDS_SINCE
    return Sent(version, topic_id=front.broker.topics.get("t").id if by_id else bytes(16))


async def read_all(wire: Wire, sent: Sent, end: int) -> list[bytes | None]:
    """Return all values, with requests in a session if the first one begins one."""
    values: list[bytes | None] = []
    session, epoch = sent.session
    while sent.offset < end:
        await wire.send(replace(sent, session=(session, epoch)).frame())
        response, answer = await got(wire, sent.version)
        assert answer.error == 0
        values += answer.values
        sent = replace(sent, offset=answer.next_offset)
        if epoch >= 0:
            session, epoch = response.session_id, epoch + 1
    return values


async def got_any(wire: Wire) -> FetchResponse:
    head = len(response_head(0, 1, 12))
    response: FetchResponse = schema.decode(FetchResponse, 12, await wire.receive(), head)
    return response

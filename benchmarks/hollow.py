"""A broker that keeps nothing: what clients do beside it is the most that they can do at all.

`python -m benchmarks.hollow PORT SIZE` takes every batch without looking at it (the kernel drops
the bytes) and hands out one and the same run of records of SIZE bytes, for ever or up to an offset
(`--records`). With `--store FILE`, what is taken is appended to that file before it is answered,
with `--sync` also synced, and that is all: no broker that keeps records can do less. A consumer may
be in a group, as its only member.
"""

import argparse
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks import wire
from chordmq.codecs.kafka.fetch import PartitionRecords, TopicRecords
from chordmq.codecs.kafka.fetch import write_response as write_fetched
from chordmq.codecs.kafka.header import read_request_header, response_head
from chordmq.codecs.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from chordmq.codecs.kafka.messages.fetch import FetchRequest
from chordmq.codecs.kafka.messages.find_coordinator import FindCoordinatorResponse
from chordmq.codecs.kafka.messages.heartbeat import HeartbeatResponse
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdResponse
from chordmq.codecs.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from chordmq.codecs.kafka.messages.leave_group import LeaveGroupResponse
from chordmq.codecs.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from chordmq.codecs.kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from chordmq.codecs.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from chordmq.codecs.kafka.produce import PartitionAnswer, write_response
from chordmq.codecs.kafka.schema import decode, encode

TOPIC = "nothing"
HOST = "127.0.0.1"
MEMBER = "the only one"
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
API_VERSIONS, INIT_PRODUCER_ID = 18, 22
VERSIONS = {
    PRODUCE: range(3, 13),  # later ones name topics by their ids
    FETCH: range(4, 13),
    LIST_OFFSETS: range(1, 7),
    METADATA: range(10),
    OFFSET_COMMIT: range(2, 10),
    OFFSET_FETCH: range(1, 8),  # later ones name several groups
    FIND_COORDINATOR: range(4),
    JOIN_GROUP: range(10),
    HEARTBEAT: range(5),
    LEAVE_GROUP: range(6),
    SYNC_GROUP: range(6),
    API_VERSIONS: range(4),
    INIT_PRODUCER_ID: range(5),
}
NO_OFFSET = -1
BATCH_BYTES = 128 * 1024
BATCHES = 7
"""Batches in an answer: as many as fit into the megabyte that clients ask for."""
READ_BYTES = 512 * 1024
"""Read at once of what is to be stored: requests that came together share a read and a write."""
BEGINNING_BYTES = 64
"""Read at once of what is dropped, so that little is copied."""
REQUEST_BYTES_MAX = 2 << 20
END = 1 << 40

_REQUEST = struct.Struct(">ihhi")
_ANSWER = struct.Struct(">ii")
_OFFSET = struct.Struct(">q")

Message = TypeVar("Message")
Buffer = bytes | bytearray | memoryview
Store = Callable[[memoryview], None]


class Request(NamedTuple):
    """One request; of batches that are dropped the frame has only the beginning."""

    key: int
    version: int
    number: int
    frame: memoryview

    def read(self, message: type[Message]) -> Message:
        """Return the body."""
        return decode(message, self.version, self.frame, read_request_header(self.frame).body)


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is handed out: one batch of so many records again and again, up to an offset."""

    batch: bytes
    records: int
    end: int


class Hollow:
    """Answers one client."""

    def __init__(self, client: socket.socket, shelf: Shelf, store: Store | None) -> None:
        self._client = client
        self._store = store
        self._read_bytes = BEGINNING_BYTES if store is None else READ_BYTES
        self._taken = memoryview(bytearray(self._read_bytes + REQUEST_BYTES_MAX))
        self._shelf = shelf
        self._run = memoryview(bytearray(shelf.batch * BATCHES))

    def serve(self) -> None:
        """Answer until the client hangs up."""
        with self._client as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while True:
                    self._answer()
            except (OSError, wire.WireError):
                return

    def _answer(self) -> None:
        """Answer what has come; clients have one Fetch under way, so that the run is free again."""
        requests, size = self._receive()
        if self._store is not None and any(request.key == PRODUCE for request in requests):
            self._store(self._taken[:size])
        out: list[Buffer] = []
        for request in requests:
            buffers = self._answer_to(request)
            out.append(_ANSWER.pack(4 + sum(map(len, buffers)), request.number))
            out += buffers
        self._send(out)

    def _receive(self) -> tuple[list[Request], int]:
        """Return the requests that have come, the last one waited for, and their size together."""
        taken, begin = self._taken, 0
        filled = self._client.recv_into(taken, self._read_bytes)
        if not filled:
            raise wire.WireError("the client hung up")
        requests: list[Request] = []
        while begin < filled:
            filled = self._fill(filled, begin + _REQUEST.size)
            size, key, version, number = _REQUEST.unpack_from(taken, begin)
            if not _REQUEST.size <= 4 + size <= REQUEST_BYTES_MAX:
                raise wire.WireError(f"a request of {size} bytes")
            end = begin + 4 + size
            is_dropped = key == PRODUCE and self._store is None
            filled = self._fill(filled, end, socket.MSG_TRUNC if is_dropped else 0)
            requests.append(Request(key, version, number, taken[begin + 4 : end]))
            begin = end
        return requests, filled

    def _fill(self, filled: int, end: int, flags: int = 0) -> int:
        """Wait for what is missing up to `end`; return how far the requests are there."""
        if filled >= end:
            return filled
        rest = self._taken[filled:end]
        if self._client.recv_into(rest, 0, socket.MSG_WAITALL | flags) < len(rest):
            raise wire.WireError("the client hung up")
        return end

    def _answer_to(self, request: Request) -> list[Buffer]:
        key, version = request.key, request.version
        if key == PRODUCE:
            return [_taken(version)]
        if key == FETCH:
            return [_tags(key, version), *self._fetched(request)]
        if key == JOIN_GROUP:
            return [_tags(key, version), encode(_joined(request.read(JoinGroupRequest)), version)]
        if key == SYNC_GROUP:
            return [_tags(key, version), encode(_synced(request.read(SyncGroupRequest)), version)]
        return [_said(key, version, self._client.getsockname()[1])]

    def _fetched(self, request: Request) -> list[Buffer]:
        asked = request.read(FetchRequest)
        wanted = [part for topic in asked.topics for part in topic.partitions]
        if not wanted:
            return list(write_fetched([], request.version))
        first, end = wanted[0].fetch_offset, self._shelf.end
        if first < end:
            run = [self._numbered(first)]
        else:
            time.sleep(asked.max_wait_ms / 1000)
            run = []
        rows = [PartitionRecords(0, 0, end, end, 0, run)]
        return list(write_fetched([TopicRecords(TOPIC, b"", rows)], request.version))

    def _numbered(self, first: int) -> memoryview:
        """Return the run of batches with offsets from `first` on."""
        for number in range(BATCHES):
            offset = first + number * self._shelf.records
            _OFFSET.pack_into(self._run, number * len(self._shelf.batch), offset)
        return self._run

    def _send(self, buffers: list[Buffer]) -> None:
        sent, size = self._client.sendmsg(buffers), sum(map(len, buffers))
        if sent < size:
            self._client.sendall(b"".join(buffers)[sent:])


def _tags(key: int, version: int) -> bytes:
    """Return what stands in an answer's head behind the number of the request."""
    return response_head(0, key, version)[4:]


@cache
def _taken(version: int) -> bytes:
    answer = write_response([PartitionAnswer(TOPIC, b"", 0, 0, 0, -1, 0)], version)
    return _tags(PRODUCE, version) + bytes(answer)


def _joined(asked: JoinGroupRequest) -> JoinGroupResponse:
    """Let the only member lead the group, with the assignor that it likes best."""
    best = asked.protocols[0]
    return JoinGroupResponse(
        generation_id=1,
        protocol_type=asked.protocol_type,
        protocol_name=best.name,
        leader=MEMBER,
        member_id=MEMBER,
        members=[JoinGroupResponseMember(member_id=MEMBER, metadata=best.metadata)],
    )


def _synced(asked: SyncGroupRequest) -> SyncGroupResponse:
    """Give the only member what it has assigned to itself."""
    return SyncGroupResponse(
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignment=asked.assignments[0].assignment,
    )


@cache
def _said(key: int, version: int, port: int) -> bytes:
    """Return the answer to a question whose answer is always the same."""
    place = MetadataResponsePartition(replica_nodes=[0], isr_nodes=[0])
    offsets = ListOffsetsPartitionResponse(offset=0)
    committed = OffsetFetchResponsePartition(committed_offset=NO_OFFSET)
    said = {
        API_VERSIONS: ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=one, min_version=versions.start, max_version=versions.stop - 1)
                for one, versions in VERSIONS.items()
            ]
        ),
        METADATA: MetadataResponse(
            brokers=[MetadataResponseBroker(host=HOST, port=port)],
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[place])],
        ),
        LIST_OFFSETS: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[offsets])]
        ),
        FIND_COORDINATOR: FindCoordinatorResponse(host=HOST, port=port),
        HEARTBEAT: HeartbeatResponse(),
        OFFSET_FETCH: OffsetFetchResponse(
            topics=[OffsetFetchResponseTopic(name=TOPIC, partitions=[committed])]
        ),
        OFFSET_COMMIT: OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(name=TOPIC, partitions=[OffsetCommitResponsePartition()])
            ]
        ),
        LEAVE_GROUP: LeaveGroupResponse(),
        INIT_PRODUCER_ID: InitProducerIdResponse(producer_id=1),
    }[key]
    return _tags(key, version) + bytes(encode(said, version))


def store_in(path: Path, *, sync: bool) -> Store:
    """Return what appends to the file, and has the disk write it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def store(taken: memoryview) -> None:
        if os.write(file, taken) < len(taken):
            raise OSError("the disk is full")
        if sync:
            os.fdatasync(file)

    return store


def main() -> None:
    """Serve every client in a thread, until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hollow", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("size", type=int, help="bytes of the values that are handed out")
    parser.add_argument("--records", type=int, default=END, help="about so many are handed out")
    parser.add_argument("--store", type=Path, metavar="FILE", help="append what is taken")
    parser.add_argument("--sync", action="store_true", help="and sync it before the answer")
    options = parser.parse_args()
    records = BATCH_BYTES // (options.size + 10)
    shelf = Shelf(wire.record_batch(records, options.size), records, options.records)
    store = store_in(options.store, sync=options.sync) if options.store else None
    with socket.create_server((HOST, options.port)) as listener:
        while True:
            client, _ = listener.accept()
            hollow = Hollow(client, shelf, store)
            threading.Thread(target=hollow.serve, daemon=True).start()


if __name__ == "__main__":
    main()

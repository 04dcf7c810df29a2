"""A broker that keeps nothing: what clients do beside it is the most that they can do at all.

`python -m benchmarks.hollow PORT SIZE` takes every batch without looking at it (the kernel drops
the bytes) and hands out one and the same run of records of SIZE bytes for ever. With a FILE behind
it, what is taken is appended to that file and synced before it is answered, and that is all: no
broker that acknowledges by the disk can do less.
"""

import os
import socket
import struct
import sys
import threading
from collections.abc import Iterable
from functools import cache

from benchmarks import wire
from chordmq.codecs.kafka.fetch import PartitionRecords, TopicRecords
from chordmq.codecs.kafka.fetch import write_response as write_fetched
from chordmq.codecs.kafka.header import read_request_header, response_head
from chordmq.codecs.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from chordmq.codecs.kafka.messages.fetch import FetchRequest
from chordmq.codecs.kafka.messages.find_coordinator import FindCoordinatorResponse
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdResponse
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
from chordmq.codecs.kafka.produce import PartitionAnswer, write_response
from chordmq.codecs.kafka.schema import decode, encode

TOPIC = "nothing"
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 10, 18, 22
VERSIONS = {
    PRODUCE: range(3, 13),  # later ones name topics by their ids
    FETCH: range(4, 13),
    LIST_OFFSETS: range(1, 7),
    METADATA: range(10),
    FIND_COORDINATOR: range(4),
    API_VERSIONS: range(4),
    INIT_PRODUCER_ID: range(5),
}
COORDINATOR_NOT_AVAILABLE = 15
BATCH_BYTES = 128 * 1024
BATCHES = 7
"""Batches in an answer: as many as fit into the megabyte that clients ask for."""
HEAD_MAX = 64
END = 1 << 40

_SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class Hollow:
    """Answers one client."""

    def __init__(self, client: socket.socket, batch: bytes, records: int, file: int | None) -> None:
        self._client = client
        self._file = file
        self._records = records
        self._batch = len(batch)
        self._run = memoryview(bytearray(batch * BATCHES))
        self._dropped = bytearray(1 << 20)

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
        client = self._client
        (size,) = _SIZE.unpack(wire.read_exactly(client, _SIZE.size))
        begun = min(size, HEAD_MAX)
        frame = wire.read_exactly(client, begun)
        key, version, number = struct.unpack_from(">hhi", frame)
        if key == PRODUCE:
            self._take(size - begun)
            buffers: Iterable[bytes | bytearray | memoryview] = [_taken(version)]
        else:
            frame += wire.read_exactly(client, size - begun)
            body = read_request_header(frame).body
            buffers = self._fetched(frame, body, version) if key == FETCH else [_said(key, version)]
        out = [response_head(number, key, version), *buffers]
        client.sendall(b"".join([_SIZE.pack(sum(map(len, out))), *out]))

    def _take(self, size: int) -> None:
        if self._file is None:
            self._drop(size)
            return
        os.write(self._file, wire.read_exactly(self._client, size))
        os.fdatasync(self._file)

    def _drop(self, size: int) -> None:
        while size:
            count = self._client.recv_into(self._dropped, min(size, 1 << 20), socket.MSG_TRUNC)
            if not count:
                raise wire.WireError("the client hung up")
            size -= count

    def _fetched(
        self, frame: bytearray, body: int, version: int
    ) -> Iterable[bytes | bytearray | memoryview]:
        request = decode(FetchRequest, version, memoryview(frame), body)
        wanted = [part for topic in request.topics for part in topic.partitions]
        rows = []
        if wanted:
            for number in range(BATCHES):
                offset = wanted[0].fetch_offset + number * self._records
                _OFFSET.pack_into(self._run, number * self._batch, offset)
            rows = [PartitionRecords(0, 0, END, END, 0, [self._run])]
        return write_fetched([TopicRecords(TOPIC, b"", rows)] if rows else [], version)


@cache
def _taken(version: int) -> bytes:
    return bytes(write_response([PartitionAnswer(TOPIC, b"", 0, 0, 0, -1, 0)], version))


@cache
def _said(key: int, version: int) -> bytes:
    """Return the answer to a question whose answer is always the same."""
    port = int(sys.argv[1])
    place = MetadataResponsePartition(replica_nodes=[0], isr_nodes=[0])
    offsets = ListOffsetsPartitionResponse(offset=0)
    said = {
        API_VERSIONS: ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=one, min_version=versions.start, max_version=versions.stop - 1)
                for one, versions in VERSIONS.items()
            ]
        ),
        METADATA: MetadataResponse(
            brokers=[MetadataResponseBroker(host="127.0.0.1", port=port)],
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[place])],
        ),
        LIST_OFFSETS: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[offsets])]
        ),
        FIND_COORDINATOR: FindCoordinatorResponse(error_code=COORDINATOR_NOT_AVAILABLE),
        INIT_PRODUCER_ID: InitProducerIdResponse(producer_id=1),
    }[key]
    return bytes(encode(said, version))


def main() -> None:
    """Serve every client in a thread, until the process is ended."""
    port, size = map(int, sys.argv[1:3])
    file = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if sys.argv[3:] else None
    records = BATCH_BYTES // (size + 10)
    batch = wire.record_batch(records, size)
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            client, _ = listener.accept()
            hollow = Hollow(client, batch, records, file)
            threading.Thread(target=hollow.serve, daemon=True).start()


if __name__ == "__main__":
    main()

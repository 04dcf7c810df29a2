"""The few Kafka requests the benchmark builds by itself, so that the client costs little.

Every version used here is one without tagged fields, and one that Apache Kafka 4 still answers.
"""

import socket
import struct
import time
from collections.abc import Iterator

from crc32c import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
CLIENT_ID = b"bench"
LATEST = -1
BATCH_HEADER_SIZE = 61
CRC_START = 21


class WireError(Exception):
    """A broker answered with an error code, or not with what was asked."""


def request(api_key: int, version: int, body: bytes) -> bytes:
    """Return the whole frame of a request."""
    head = struct.pack(">hhih", api_key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


def metadata_request() -> bytes:
    """Return a Metadata request, version 1, for no topic: it asks only who the brokers are."""
    return request(METADATA, 1, struct.pack(">i", 0))


def produce_request(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    """Return a Produce request, version 7, with one batch for one partition."""
    body = struct.pack(">hhi", -1, acks, 30_000) + _one_topic(topic)
    body += struct.pack(">ii", partition, len(batch)) + batch
    return request(PRODUCE, 7, body)


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Return a Fetch request, version 4, for one partition."""
    body = struct.pack(">iiiib", -1, 500, 1, max_bytes, 0) + _one_topic(topic)
    return request(FETCH, 4, body + struct.pack(">iqi", partition, offset, max_bytes))


def end_offset_request(topic: str, partition: int) -> bytes:
    """Return a ListOffsets request, version 1, for the end of one partition."""
    body = struct.pack(">i", -1) + _one_topic(topic) + struct.pack(">iq", partition, LATEST)
    return request(LIST_OFFSETS, 1, body)


def record_batch(count: int, value_size: int) -> bytes:
    """Return one uncompressed batch of `count` records with values of `value_size` bytes."""
    value = bytes(index * 31 % 251 for index in range(value_size))
    records = b"".join(_record(delta, value) for delta in range(count))
    now = int(time.time() * 1000)  # what is old would be removed by the topic's retention
    head = struct.pack(">hiqqqhii", 0, count - 1, now, now, -1, -1, -1, count)
    crc = crc32c(head + records)
    return struct.pack(">qiibI", 0, len(head + records) + 9, -1, 2, crc) + head + records


def walk_batches(data: memoryview) -> Iterator[tuple[int, int]]:
    """Yield (base offset, number of records) of each whole batch."""
    position, end = 0, len(data)
    while end - position >= BATCH_HEADER_SIZE:
        base, length = struct.unpack_from(">qi", data, position)
        if position + 12 + length > end:
            return
        yield base, struct.unpack_from(">i", data, position + 57)[0]
        position += 12 + length


def fetched_records(answer: memoryview) -> memoryview:
    """Return the records of the one partition in a Fetch answer."""
    (name_size,) = struct.unpack_from(">h", answer, 8)
    position = 10 + name_size + 4 + 4
    (error,) = struct.unpack_from(">h", answer, position)
    if error:
        raise WireError(f"fetch answered with error {error}")
    (aborted,) = struct.unpack_from(">i", answer, position + 18)
    position += 22 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4 : position + 4 + max(size, 0)]


def produce_error(answer: bytes | bytearray, topic: str) -> int:
    """Return the error code of the one partition in a Produce answer."""
    return int(struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)[0])


def end_offset(answer: bytes | bytearray, topic: str) -> int:
    """Return the offset of the one partition in a ListOffsets answer."""
    error, _, offset = struct.unpack_from(">hqq", answer, 4 + 2 + len(topic) + 4 + 4)
    if error:
        raise WireError(f"list offsets answered with error {error}")
    return int(offset)


def read_exactly(sock: socket.socket, size: int) -> bytearray:
    """Read `size` bytes or raise ConnectionError."""
    data = bytearray(size)
    read_into(sock, memoryview(data))
    return data


def read_into(sock: socket.socket, target: memoryview) -> None:
    """Fill `target` or raise ConnectionError."""
    position, size = 0, len(target)
    while position < size:
        read = sock.recv_into(target[position:])
        if not read:
            raise ConnectionError(f"closed after {position} of {size} bytes")
        position += read


def read_answer(sock: socket.socket) -> bytearray:
    """Read one answer and return its body."""
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    return read_exactly(sock, size)[4:]


def ask(sock: socket.socket, frame: bytes) -> bytearray:
    """Send one request and return the body of its answer."""
    sock.sendall(frame)
    return read_answer(sock)


def connect(bootstrap: str, source: str = "127.0.0.1") -> socket.socket:
    """Open a connection without Nagle's delay."""
    host, port = bootstrap.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def brokers_known(port: int) -> int:
    """Return how many brokers the node at `port` names, 0 while it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            answer = ask(sock, metadata_request())
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer)[0])


def _one_topic(topic: str) -> bytes:
    name = topic.encode()
    return struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1)


def _record(delta: int, value: bytes) -> bytes:
    body = b"\x00\x00" + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """Return a number in zigzag form, seven bits to a byte."""
    rest, out = (number << 1) ^ (number >> 31), bytearray()
    rest &= 0xFFFFFFFF
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)

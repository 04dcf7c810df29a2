"""A raw Kafka connection for tests: frames by hand, message bodies by kio, an independent codec."""

import datetime
import io
import select
import socket
import struct
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType
from typing import Any, Self, get_args

from crc32c import crc32c
from kio.index import load_request_schema, load_response_schema
from kio.records.readers import read_batch
from kio.serial import entity_reader, entity_writer

from chordmq.records.batch import HEADER_SIZE

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 11, 18, 19, 22
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, CREATE_PARTITIONS = 23, 32, 37

NO_PRODUCER = -1
# An hour ago: a time of its own for every record, yet young enough for every retention.
FIRST_TIME_MS = time.time_ns() // 1_000_000 - 3_600_000
ZEROS = {
    "bool": False,
    "bytes": b"",
    "records": b"",
    "string": "",
    "timedelta_i32": datetime.timedelta(),
    "timedelta_i64": datetime.timedelta(),
}


class Wire:
    """One connection that shows every frame; the caller decides what to send and when to read."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = 60) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._next_correlation_id = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, api_key: int, version: int, /, **values: object) -> int:
        """Send one request and return its correlation id, without waiting for the answer."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self.socket.sendall(framed(request(api_key, version, correlation_id, values)))
        return correlation_id

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        """Read one response, which must answer `correlation_id`, and decode all of its bytes."""
        frame = self.receive_frame()
        assert frame is not None, "the node closed the connection instead of answering"
        return response(api_key, version, correlation_id, frame)

    def call(self, api_key: int, version: int, /, **values: object) -> Any:
        """Send one request and return its decoded response."""
        return self.receive(api_key, version, self.send(api_key, version, **values))

    def produce(self, topic: str, batch: bytes, *, acks: int = -1) -> Any:
        """Send one batch to partition 0 and return that partition's answer."""
        answer = self.call(PRODUCE, 9, **produce_fields(topic, batch, acks=acks))
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, **limits: int) -> Any:
        """Fetch from partition 0 and return that partition's answer."""
        return self.receive_fetch(self.send_fetch(topic, offset, **limits))

    def send_fetch(self, topic: str, offset: int, **limits: int) -> int:
        """Ask for partition 0 from an offset on, without waiting for the answer."""
        return self.send(FETCH, 12, **fetch_fields(topic, offset, **limits))

    def receive_fetch(self, correlation_id: int) -> Any:
        """Return the answer for partition 0 to what `send_fetch` asked."""
        return self.receive(FETCH, 12, correlation_id).responses[0].partitions[0]

    def topic_id(self, topic: str) -> uuid.UUID:
        """Ask for the id of a topic."""
        asked = [{"name": topic}]
        described = self.call(METADATA, 12, topics=asked, allow_auto_topic_creation=False)
        found = described.topics[0].topic_id
        assert isinstance(found, uuid.UUID)
        return found

    def has_answer(self, *, within_s: float) -> bool:
        """Return whether a byte arrives within the time, leaving it unread."""
        return bool(self._received or select.select([self.socket], [], [], within_s)[0])

    def receive_frame(self) -> bytes | None:
        """Return the next frame without its size, or None when the peer closed the connection."""
        size = self._receive_exactly(4)
        return None if size is None else self._receive_exactly(int.from_bytes(size, "big"))

    def is_closed_by_peer(self) -> bool:
        """Wait until the peer closes the connection, ignoring what it still sends."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def _receive_exactly(self, size: int) -> bytes | None:
        while len(self._received) < size:
            try:
                chunk = self.socket.recv(max(65536, size - len(self._received)))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self._received += chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data


def framed(payload: bytes) -> bytes:
    """Prefix the payload with its size."""
    return len(payload).to_bytes(4, "big") + payload


def request(api_key: int, version: int, correlation_id: int, values: Mapping[str, object]) -> bytes:
    """Encode header and body of one request; fields not given get the schema's default."""
    schema: Any = load_request_schema(api_key, version)
    client_id = b"chordmq-test"
    head = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
    body = io.BytesIO()
    entity_writer(schema)(body, build(schema, values))
    return head + (b"\0" if schema.__flexible__ else b"") + body.getvalue()


def response(api_key: int, version: int, correlation_id: int, frame: bytes) -> Any:
    """Decode one response frame and check that nothing is left over."""
    schema: Any = load_response_schema(api_key, version)
    assert int.from_bytes(frame[:4], "big", signed=True) == correlation_id
    start = 4 + (schema.__flexible__ and api_key != API_VERSIONS)
    decoded, size = entity_reader(schema)(frame, start)
    assert start + size == len(frame), "bytes left after the response"
    return decoded


def build(schema: Any, values: Mapping[str, Any]) -> Any:
    """Build a kio entity from plain dictionaries, lists and integers."""
    known = {field.name: field for field in fields(schema)}
    assert values.keys() <= known.keys(), f"{schema.__name__} has only the fields {list(known)}"
    return schema(
        **{
            name: _given(field, values[name]) if name in values else _default(field)
            for name, field in known.items()
            if name in values or field.default is MISSING
        }
    )


def _given(field: Field[Any], value: Any) -> Any:
    if value is None:
        return None
    nested = next((part for part in _parts(field.type) if is_dataclass(part)), None)
    if isinstance(value, list):
        return tuple(build(nested, item) for item in value) if nested else tuple(value)
    if nested:
        return build(nested, value)
    if str(field.metadata.get("kafka_type")).startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    return value


def _default(field: Field[Any]) -> Any:
    parts = _parts(field.type)
    if NoneType in parts:
        return None
    if Ellipsis in parts:
        return ()
    if is_dataclass(parts[0]):
        return build(parts[0], {})
    kind = field.metadata["kafka_type"]
    return ZEROS.get(kind, 0)


def _parts(kind: Any) -> list[Any]:
    """Return the plain types of `tuple[X, ...] | None` and the like."""
    arguments = get_args(kind)
    return [part for each in arguments for part in _parts(each)] if arguments else [kind]


def produce_fields(topic: str, batch: bytes, *, acks: int = -1) -> dict[str, object]:
    """Return the fields of a Produce request for partition 0."""
    partitions = [{"index": 0, "records": batch}]
    topics = [{"name": topic, "partition_data": partitions}]
    return {"acks": acks, "timeout": 10_000, "topic_data": topics}


def fetch_fields(
    topic: str,
    offset: int,
    *,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1_000_000,
    partition_max_bytes: int = 1_000_000,
) -> dict[str, object]:
    """Return the fields of a Fetch request for partition 0, without a session."""
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": partition_max_bytes,
        "current_leader_epoch": -1,
    }
    return {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def stored(records: bytes) -> list[tuple[int, bytes | None]]:
    """Return offset and value of each record in uncompressed batches."""
    found: list[tuple[int, bytes | None]] = []
    position = 0
    while position < len(records):
        batch, size = read_batch(records, position)
        found += [(record.offset, record.value) for record in batch.records]
        position += size
    return found


def record_batch(
    values: Iterable[bytes | None],
    *,
    keys: bytes | None = b"k",
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_ms: int = FIRST_TIME_MS,
    attributes: int = 0,
) -> bytes:
    """Build one uncompressed batch whose records all have the same key and time."""
    records = [_record(index, keys, value) for index, value in enumerate(values)]
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        len(records) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ) + b"".join(records)
    length = HEADER_SIZE - 12 + len(b"".join(records))
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c(checked)) + checked


def _record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + b"\0" + _varint(offset_delta) + _sized(key) + _sized(value) + b"\0"
    return _varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)

"""Load from plain sockets and prebuilt frames: the client that costs least."""

import itertools
import resource
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from benchmarks import wire

FETCH_BYTES: Final = 1 << 20
SOURCES: Final = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
SPARE_FILES: Final = 500
LEADER_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Rate:
    """How much passed in how many seconds."""

    count: int
    seconds: float
    size: int = 0
    """Bytes of the record values or batches that passed."""
    before: int = 0
    """How many had passed when the clock began to run."""

    @property
    def per_s(self) -> float:
        """Return how much passed in a second."""
        return (self.count - self.before) / self.seconds

    @property
    def bytes_per_s(self) -> float:
        """Return how many bytes passed in a second."""
        return self.size / self.count * self.per_s


def produce_pipelined(
    bootstrap: str, topic: str, batch: tuple[int, int], limit: tuple[float, int], window: int = 5
) -> Rate:
    """Send batches of (records, bytes each) on one connection, up to `window` not yet answered.

    It ends at `limit`: seconds or batches, whichever comes first.
    """
    count, value_size = batch
    seconds, batches_max = limit
    frame = wire.produce_request(topic, 0, wire.record_batch(count, value_size), acks=1)
    sent = answered = 0
    with wire.connect(bootstrap) as sock:
        started = time.perf_counter()
        while True:
            more = sent < batches_max and time.perf_counter() - started < seconds
            if more and sent - answered < window:
                sock.sendall(frame)
                sent += 1
                continue
            if sent == answered:
                break
            error = wire.produce_error(wire.read_answer(sock), topic)
            if error:
                raise wire.WireError(f"produce answered with error {error}")
            answered += 1
        taken = time.perf_counter() - started
    return Rate(answered * count, taken, answered * count * value_size)


def produce_in_turn(
    bootstrap: str,
    topic: str,
    connections: int,
    seconds: float,
    partitions: int = 1,
    acks: int = 1,
) -> Rate:
    """Send requests of one 100-byte record; each connection waits for its answer in between.

    They write to one partition, or in turn to several.
    """
    batch = wire.record_batch(1, 100)
    ready = [wire.produce_request(topic, number, batch, acks) for number in range(partitions)]
    poll = select.epoll()
    socks = {sock.fileno(): sock for sock in (wire.connect(bootstrap) for _ in range(connections))}
    frames = dict(zip(socks, itertools.cycle(ready), strict=False))
    started = time.perf_counter()
    for number, sock in socks.items():
        sock.setblocking(False)
        poll.register(number, select.EPOLLIN)
        sock.send(frames[number])
    answered, waiting = 0, connections
    while waiting:
        sending = time.perf_counter() - started < seconds
        for number, _ in poll.poll():
            answer = socks[number].recv(4096)
            if wire.produce_error(answer[8:], topic):
                raise wire.WireError("produce answered with an error")
            answered += 1
            if sending:
                socks[number].send(frames[number])
            else:
                waiting -= 1
    taken = time.perf_counter() - started
    for sock in socks.values():
        sock.close()
    poll.close()
    return Rate(answered, taken, answered * 100)


def read_partition(bootstrap: str, topic: str, partition: int, end: int) -> Rate:
    """Fetch a partition from its start to `end`; count the records and check they are in order."""
    offset = size = 0
    buffer = memoryview(bytearray(FETCH_BYTES + (1 << 20)))
    with wire.connect(bootstrap) as sock:
        started = time.perf_counter()
        while offset < end:
            sock.sendall(wire.fetch_request(topic, partition, offset, FETCH_BYTES))
            (length,) = struct.unpack(">i", wire.read_exactly(sock, 4))
            if length > len(buffer):
                buffer = memoryview(bytearray(length))
            wire.read_into(sock, buffer[:length])
            records = wire.fetched_records(buffer[4:length])
            size += len(records)
            for base, count in wire.walk_batches(records):
                if base > offset:
                    raise wire.WireError(f"offset {offset} of {topic}-{partition} is missing")
                offset = base + count
        taken = time.perf_counter() - started
    return Rate(offset, taken, size)


def count_records(bootstrap: str, topic: str, partitions: int) -> int:
    """Count what a consumer can read of a topic."""
    total = 0
    for partition in range(partitions):
        end = wait_for_end(bootstrap, topic, partition)
        total += read_partition(bootstrap, topic, partition, end).count
    return total


def end_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Ask for the offset after the last record."""
    with wire.connect(bootstrap) as sock:
        answer = wire.ask(sock, wire.end_offset_request(topic, partition))
    return wire.end_offset(answer, topic)


def wait_for_end(
    bootstrap: str, topic: str, partition: int = 0, timeout_s: float = LEADER_TIMEOUT_S
) -> int:
    """Return the end of a partition as soon as it has a leader that answers."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return end_offset(bootstrap, topic, partition)
        except (OSError, wire.WireError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def open_connections(bootstrap: str, count: int) -> list[socket.socket]:
    """Open `count` connections and ask once on each."""
    allow_files(count + SPARE_FILES)
    socks: list[socket.socket] = []
    try:
        for index in range(count):
            socks.append(wire.connect(bootstrap, SOURCES[index % len(SOURCES)]))
            wire.ask(socks[-1], wire.metadata_request())
    except BaseException:
        close_connections(socks)
        raise
    return socks


def ask_all(socks: list[socket.socket]) -> Rate:
    """Ask on every connection, then read every answer; count those that answered."""
    frame = wire.metadata_request()
    started = time.perf_counter()
    for sock in socks:
        sock.sendall(frame)
    answered = sum(len(wire.read_answer(sock)) > 0 for sock in socks)
    return Rate(answered, time.perf_counter() - started)


def close_connections(socks: list[socket.socket]) -> None:
    """Close what `open_connections` opened."""
    for sock in socks:
        sock.close()


def allow_files(count: int) -> None:
    """Raise this process's limit of open files, as far as the machine lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))

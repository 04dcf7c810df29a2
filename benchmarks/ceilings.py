"""What the machine and the clients can do at most, in the same run.

A broker that moves every byte once cannot be faster than loopback, disk, memory and checksums.
`stored` is what a process can do at most that only takes bytes from a connection and appends them
to a file. `librdkafka` and `java` are what a client does with a broker that keeps nothing: no
other can make it faster. `flushed` is the same with one that only appends to a file and syncs it.
`sendfile` is the processor time of sending what lies in the page cache without looking at it.
"""

import os
import socket
import sys
import threading
import time
from pathlib import Path

from crc32c import crc32c

from benchmarks import hollow, java_tools, load, reading
from benchmarks.peers import free_port
from benchmarks.servers import run_server
from benchmarks.session import Sample, Session
from benchmarks.sockets import Rate
from benchmarks.usage import usage_of

BYTES = 1 << 30
CHUNK = 1 << 17
DISK_BYTES = 1 << 28
COMMAND = "python -m benchmarks --case ceilings"
SIZES = {"100b": 100, "1k": 1024}


def ceilings(session: Session) -> list[Sample]:
    """Measure the machine itself, once for both brokers."""
    if not session.ours:
        return []
    directory = Path(session.peer.directory)
    measured = {
        "loopback": loopback(),
        "stored": loopback(directory / "ceiling"),
        "disk": disk(directory / "ceiling", flush_bytes=0),
        "disk_flushed": disk(directory / "ceiling", flush_bytes=1 << 20),
        "copy": copy(),
        "crc32c": checksum(),
    }
    for name, size in SIZES.items():
        measured |= {f"{kind}_{name}": rate for kind, rate in clients(session, size).items()}
        measured[f"librdkafka_flushed_{name}"] = flushed(session, size, directory / "ceiling")
    used = usage_of(os.getpid())
    cost = used.cpu_s, used.rss_mb, COMMAND
    sent = reading.cost_of(reading.by_sendfile)
    return [
        *(Sample(f"ceiling.{name}", rate / 1e6, "MB/s", *cost) for name, rate in measured.items()),
        Sample("ceiling.sendfile", sent, "CPU s/GB", *cost),
    ]


def clients(session: Session, size: int) -> dict[str, float]:
    """Return the bytes of values a second that clients send and receive without a real broker."""
    port, profile = free_port(), session.profile
    count = profile.bytes_max // size
    command = [sys.executable, "-m", "benchmarks.hollow", str(port), str(size)]
    rates: dict[str, Rate] = {}
    with run_server(command, port):
        to = f"127.0.0.1:{port}", hollow.TOPIC
        for name, acks in load.ACKS.items():
            limit = (profile.produce_s, count)
            rates[f"librdkafka_{name}"] = load.produce(*to, size, acks, limit)
            settings = acks | java_tools.PRODUCER
            sent = java_tools.producer_performance(*to, size, settings, profile.java_bytes // size)
            rates[f"java_{name}"] = sent.rate
        rates["librdkafka_consume"] = load.consume(*to, 1, min(count, profile.consume_messages))
    return {kind: rate.bytes_per_s for kind, rate in rates.items()}


def flushed(session: Session, size: int, into: Path) -> float:
    """Return the bytes of values a second that a client sends to one who only stores and syncs."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.hollow", str(port), str(size), str(into)]
    limit = (session.profile.produce_s, session.profile.bytes_max // size)
    try:
        with run_server(command, port):
            to = f"127.0.0.1:{port}", hollow.TOPIC
            return load.produce(*to, size, load.ACKS["acksall"], limit).bytes_per_s
    finally:
        into.unlink(missing_ok=True)


def loopback(into: Path | None = None) -> float:
    """Return the bytes a second that one TCP connection carries from one thread to another.

    `into` names a file that the receiver appends everything to, as a broker must.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    chunk = bytes(CHUNK)

    def write() -> None:
        with socket.create_connection(listener.getsockname()) as sender:
            for _ in range(BYTES // CHUNK):
                sender.sendall(chunk)

    writing = threading.Thread(target=write)
    began = time.perf_counter()
    writing.start()
    receiver, _ = listener.accept()
    with listener, receiver, (into or Path(os.devnull)).open("wb", buffering=0) as file:
        buffer = memoryview(bytearray(1 << 20))
        while count := receiver.recv_into(buffer):
            if into is not None:
                file.write(buffer[:count])
    took_s = time.perf_counter() - began
    writing.join()
    if into is not None:
        into.unlink()
    return BYTES / took_s


def disk(path: Path, flush_bytes: int) -> float:
    """Return the bytes a second of appending; with a flush after so many bytes, if any."""
    chunk = os.urandom(CHUNK)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        began, unflushed = time.perf_counter(), 0
        for _ in range(DISK_BYTES // CHUNK):
            unflushed += os.write(descriptor, chunk)
            if flush_bytes and unflushed >= flush_bytes:
                os.fdatasync(descriptor)
                unflushed = 0
        return DISK_BYTES / (time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()


def copy() -> float:
    """Return the bytes a second of copying memory that is not in a cache."""
    source, target = bytes(64 << 20), memoryview(bytearray(64 << 20))
    target[:] = source
    began = time.perf_counter()
    for _ in range(8):
        target[:] = source
    return 8 * len(source) / (time.perf_counter() - began)


def checksum() -> float:
    """Return the bytes a second of CRC-32C."""
    data = os.urandom(CHUNK)
    rounds = 4_000
    began = time.perf_counter()
    for _ in range(rounds):
        crc32c(data)
    return rounds * len(data) / (time.perf_counter() - began)

"""What the machine and the clients can do at most, and what it takes at least, in the same run.

A broker that moves every byte once cannot be faster than loopback, disk, memory and checksums.
`stored` is what a process can do at most that only takes bytes from a connection and appends them
to a file. `librdkafka` and `java` are what a client does with a broker that keeps nothing: no
other can make it faster. `flushed` is the same with one that only appends to a file and syncs it.
What ends in `.cpu` is the processor time that such a broker takes; with `stored` in its name, one
that only appends to a file. Who does more takes more: a quarter to two fifths of it are the
interpreter's, the rest is the kernel's. `sendfile` is the processor time of sending what lies in
the page cache without looking at it. `consume` may take less: it hands out one and the same
megabyte, which stays in the processor's cache, and so it is no floor for others.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from benchmarks import hollow, java_tools, load, reading
from benchmarks.peers import free_port
from benchmarks.servers import run_server
from benchmarks.session import GB, Profile, Sample, Session
from benchmarks.sockets import Rate
from benchmarks.usage import usage_of

BYTES = 1 << 30
CHUNK = 1 << 17
DISK_BYTES = 1 << 28
COMMAND = "python -m benchmarks --case ceilings"
SIZES = {"100b": 100, "1k": 1024}
CLIENTS = ("librdkafka", "java")

Client = Callable[[str, str], Rate]
"""Loads the broker at an address with a topic."""


class Found(NamedTuple):
    """What was found beside a hollow broker."""

    bytes_per_s: float
    """Of values, that the client sent or received."""
    cpu_per_gb: float
    """Processor seconds of the broker for 10⁹ bytes of values."""


def ceilings(session: Session) -> list[Sample]:
    """Measure the machine itself, once for both brokers."""
    if not session.ours:
        return []
    file = Path(session.peer.directory) / "ceiling"
    rates = {
        "loopback": loopback(),
        "stored": loopback(file),
        "disk": disk(file, flush_bytes=0),
        "disk_flushed": disk(file, flush_bytes=1 << 20),
        "copy": copy(),
        "crc32c": checksum(),
    }
    costs = {"sendfile": reading.cost_of(reading.by_sendfile)}
    for name, size in SIZES.items():
        dropped, stored = dropping(session.profile, size), storing(session.profile, size, file)
        moved = handing_out(session.profile, size) | flushing(session.profile, size, file)
        rates |= {f"{kind}_{name}": found.bytes_per_s for kind, found in (dropped | moved).items()}
        costs |= {
            f"{kind}_{name}.cpu": found.cpu_per_gb for kind, found in (stored | moved).items()
        }
    used = usage_of(os.getpid())
    cost = used.cpu_s, used.rss_mb, COMMAND
    return [
        *(Sample(f"ceiling.{name}", rate / 1e6, "MB/s", *cost) for name, rate in rates.items()),
        *(Sample(f"ceiling.{name}", value, "CPU s/GB", *cost) for name, value in costs.items()),
    ]


def dropping(profile: Profile, size: int) -> dict[str, Found]:
    """Send to a broker that drops everything."""
    return {
        f"{client}_{acks}": beside_hollow(size, [], _sending(profile, size, client, acks))
        for acks in load.ACKS
        for client in CLIENTS
    }


def storing(profile: Profile, size: int, into: Path) -> dict[str, Found]:
    """Send to a broker that only appends to a file; what a GB costs shows in half the time."""
    options, short = ["--store", str(into)], replace(profile, produce_s=profile.produce_s / 2)
    return {
        f"{client}_stored_{acks}": beside_hollow(
            size, options, _sending(short, size, client, acks), into
        )
        for acks in load.ACKS
        for client in CLIENTS
    }


def flushing(profile: Profile, size: int, into: Path) -> dict[str, Found]:
    """Send to a broker that only appends to a file and syncs it."""
    client = _sending(profile, size, "librdkafka", "acksall")
    options = ["--store", str(into), "--sync"]
    return {"librdkafka_flushed": beside_hollow(size, options, client, into)}


def handing_out(profile: Profile, size: int) -> dict[str, Found]:
    """Receive from a broker that hands out as much as the topics of the cases have."""
    written, java = profile.bytes_max // size, profile.java_bytes // size
    count = min(written, profile.consume_messages)

    def librdkafka_consumes(at: str, topic: str) -> Rate:
        return load.consume(at, topic, 1, count)

    def java_consumes(at: str, topic: str) -> Rate:
        return java_tools.consumer_performance(at, topic, size, java).rate

    return {
        "librdkafka_consume": beside_hollow(size, ["--records", str(written)], librdkafka_consumes),
        "java_consume": beside_hollow(size, ["--records", str(java)], java_consumes),
    }


def beside_hollow(size: int, options: list[str], client: Client, file: Path | None = None) -> Found:
    """Load a hollow broker of its own; the file that it has written is removed."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.hollow", str(port), str(size), *options]
    try:
        with run_server(command, port) as (_, process):
            os.sync()
            before = usage_of(process).cpu_s
            rate = client(f"127.0.0.1:{port}", hollow.TOPIC)
            used_s = usage_of(process).cpu_s - before
    finally:
        if file is not None:
            file.unlink(missing_ok=True)
    return Found(rate.bytes_per_s, used_s / (rate.size / GB))


def _sending(profile: Profile, size: int, client: str, acks: str) -> Client:
    """Return what sends as much as the cases do."""
    settings = load.ACKS[acks]

    def librdkafka_sends(at: str, topic: str) -> Rate:
        limit = (profile.produce_s, profile.bytes_max // size)
        return load.produce(at, topic, size, settings, limit)

    def java_sends(at: str, topic: str) -> Rate:
        chosen, count = settings | java_tools.PRODUCER, profile.java_bytes // size
        return java_tools.producer_performance(at, topic, size, chosen, count).rate

    return {"librdkafka": librdkafka_sends, "java": java_sends}[client]


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

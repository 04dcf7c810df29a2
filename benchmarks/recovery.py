"""How long a broker takes to come back after kill -9, without data and with much of it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import load, sockets
from benchmarks.peers import Peer
from benchmarks.session import OURS, PEERS, CountMismatch, Sample
from benchmarks.usage import usage_of

TOPIC = "recovered"
GIB = 1 << 30
RECORDS_PER_BATCH, RECORD_BYTES = 128, 1024
TIMEOUT_S = 180.0
# By default Kafka refuses its own return until its former session has expired, 9 s after the start,
# which would hide the time it takes to check its log.
SHORT_SESSION = ("broker.session.timeout.ms=1000", "broker.heartbeat.interval.ms=250")
COMMAND = "python -m benchmarks --case recovery"

Starter = Callable[[Path, Sequence[str]], Peer]


def recovery(starter: Starter, directory: Path, ours: bool, size: int) -> list[Sample]:
    """Crash a broker twice, with an empty topic and with `size` bytes in it, and time the returns.

    The page cache stays, as it does when a process dies. The start of the process is counted too.
    """

    def start(directory: Path) -> Peer:
        return starter(directory, () if ours else SHORT_SESSION)

    peer = start(directory)
    try:
        load.create_topic(peer.bootstrap, TOPIC, 1, (OURS if ours else PEERS)["os"])
        empty_s, peer = _crash_and_return(peer, start, directory, 0)
        count = _write(peer.bootstrap, size)
        full_s, peer = _crash_and_return(peer, start, directory, count)
        found = sockets.read_partition(peer.bootstrap, TOPIC, 0, count).count
        if found != count:
            raise CountMismatch(f"{count} records acknowledged before the crash, {found} after")
        used = usage_of(peer.pid)
    finally:
        peer.stop()
    cost = (used.cpu_s, used.rss_mb, COMMAND)
    gib = count * RECORD_BYTES / GIB
    return [
        Sample("recovery.empty", empty_s, "s", *cost),
        Sample(f"recovery.{gib:.3g}_gib", full_s, "s", *cost),
        Sample("recovery.per_gib", full_s / gib, "s/GiB", *cost),
    ]


def _write(bootstrap: str, size: int) -> int:
    """Write `size` bytes of 1 KiB records and return how many records were acknowledged."""
    limit = (TIMEOUT_S, size // (RECORDS_PER_BATCH * RECORD_BYTES))
    batch = (RECORDS_PER_BATCH, RECORD_BYTES)
    return sockets.produce_pipelined(bootstrap, TOPIC, batch, limit).count


def _crash_and_return(
    peer: Peer, start: Callable[[Path], Peer], directory: Path, count: int
) -> tuple[float, Peer]:
    """Kill the broker, start it again and wait until it knows where its topic ends."""
    peer.kill()
    started = time.monotonic()
    peer = start(directory)
    try:
        end = sockets.wait_for_end(peer.bootstrap, TOPIC, timeout_s=TIMEOUT_S)
        if end < count:
            raise CountMismatch(f"{count} records acknowledged before the crash, {end} after")
    except BaseException:
        peer.kill()
        raise
    return time.monotonic() - started, peer

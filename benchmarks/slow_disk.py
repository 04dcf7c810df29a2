"""What clients notice of one who reads old records from a slow disk.

`python -m benchmarks.slow_disk` as root: the node and Apache Kafka may read so many bytes a second
from the disk and no more, which a control group sees to. One consumer reads a topic that the page
cache has dropped; meanwhile others send and receive 1,000 messages a second, which are in memory.
With `--reader http`, it does so over HTTP, as a pipe does, and Apache Kafka is left out.
"""

import argparse
import http.client
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import load, sockets
from benchmarks.peers import FRONTS, ROOT, Peer, start_chordmq, start_kafka
from benchmarks.session import OURS, PEERS, drop

WORK = ROOT / ".cache" / "bench"
TOPIC = "cold"
GROUPS = Path("/sys/fs/cgroup")
BATCH = (126, 1024)
BATCHES = 1_000
RATE_PER_S = 1_000
SECONDS = 5.0


@contextmanager
def slowed(pid: int, directory: Path, bytes_per_s: int) -> Iterator[None]:
    """Let a process read no faster from the disk that a directory is on."""
    device = directory.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    if (GROUPS / "cgroup.controllers").exists():
        (GROUPS / "cgroup.subtree_control").write_text("+io")
        group, name, limit = GROUPS / f"chordmq-{pid}", "io.max", f"{disk} rbps={bytes_per_s}"
    else:
        group, name = GROUPS / "blkio" / f"chordmq-{pid}", "blkio.throttle.read_bps_device"
        limit = f"{disk} {bytes_per_s}"
    group.mkdir()
    try:
        (group / name).write_text(limit)
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def read_by_kafka(peer: Peer, end: int) -> None:
    """Read the topic by Fetch requests."""
    sockets.read_partition(peer.bootstrap, TOPIC, 0, end)


def read_by_http(peer: Peer, end: int) -> None:
    """Read the topic as a pipe does."""
    ports = (peer.directory / "ports").read_text().split()
    client = http.client.HTTPConnection("127.0.0.1", int(ports[FRONTS.index("http")]))
    offset = 0
    while offset < end:
        client.request("GET", f"/v1/topics/{TOPIC}/partitions/0/batches?offset={offset}")
        answer = client.getresponse()
        answer.read()
        offset = int(answer.headers["chordmq-next-offset"])
    client.close()


READERS = {"kafka": read_by_kafka, "http": read_by_http}


def measure(peer: Peer, settings: dict[str, str], bytes_per_s: int, reading: str) -> None:
    """Print latencies without and with a consumer that reads from the disk."""
    for topic in (TOPIC, "warm-up", "before", "while"):
        load.create_topic(peer.bootstrap, topic, 1, settings)
    sockets.wait_for_end(peer.bootstrap, TOPIC)
    count = sockets.produce_pipelined(peer.bootstrap, TOPIC, BATCH, (60.0, BATCHES)).count
    load.latencies(peer.bootstrap, "warm-up", RATE_PER_S, SECONDS)
    _show(peer, "nobody reads from the disk", "before")
    os.sync()
    for path in peer.directory.rglob("*.log"):
        drop(path)
    with slowed(peer.pid, peer.directory, bytes_per_s):
        reader = multiprocessing.Process(target=READERS[reading], args=(peer, count))
        reader.start()
        _show(peer, "one does", "while")
        is_over = not reader.is_alive()
        reader.kill()
        reader.join()
    if is_over:
        print("  (it was done too early: let it read less a second)")


def _show(peer: Peer, title: str, topic: str) -> None:
    found = load.latencies(peer.bootstrap, topic, RATE_PER_S, SECONDS)
    print(
        f"{peer.name}, {title}: p50 {found.p50:.2f}, p99 {found.p99:.2f}, p999 {found.p999:.2f} ms"
    )


def main() -> None:
    """Measure both brokers in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_disk", description=__doc__)
    parser.add_argument("--bytes-per-s", type=int, default=15_000_000)
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="another version's src")
    parser.add_argument("--reader", choices=READERS, default="kafka")
    options = parser.parse_args()
    contenders: list[tuple[Callable[[Path], Peer], dict[str, str]]] = [
        (lambda directory: start_chordmq(directory, source=options.source.resolve()), OURS["os"]),
        (start_kafka, PEERS["os"]),
    ]
    if options.reader != "kafka":
        del contenders[1:]
    WORK.mkdir(parents=True, exist_ok=True)
    for start, settings in contenders:
        directory = Path(tempfile.mkdtemp(dir=WORK))
        peer = start(directory)
        try:
            measure(peer, settings, options.bytes_per_s, options.reader)
        finally:
            peer.stop()
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()

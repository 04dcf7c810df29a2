"""Queries to the consumer application over a million messages: in its process, and over HTTP."""

import http.client
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.peers import free_port
from benchmarks.session import Sample
from benchmarks.usage import usage_of
from chordmq.clock import SystemClock
from chordmq.codecs.provider.frames import write_push
from chordmq.consumer_app.data_set import DataSet, Wanted
from chordmq.consumer_app.pushes import split
from chordmq.records.record import Record

COMMAND = "python -m benchmarks --case consumer_app"
ROWS, KEYS, AT_ONCE, QUERIES = 1_000_000, 500_000, 2_000, 5_000


def consumer_app(directory: Path) -> list[Sample]:
    """Measure a query by key, and a text search over everything."""
    with closing(DataSet(directory / "1", SystemClock())) as data:
        began_s = time.perf_counter()
        for start in range(0, ROWS, AT_ONCE):
            out: list[bytes] = []
            for offset in range(start, start + AT_ONCE):
                write_push(out, 0, Record(offset, offset, _key(offset), bytes(100), ()), 1)
            data.apply(split(bytearray(b"".join(out))))
        stored = ROWS / (time.perf_counter() - began_s)
        inside = _timed(lambda key: data.newest(key.encode()))
        began_s = time.perf_counter()
        data.find(Wanted(text="nowhere"))
        text_s = time.perf_counter() - began_s
    with _serving(directory) as (port, pid):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        outside = _timed(lambda key: _ask(connection, key))
        used = usage_of(pid)
    cost = (used.cpu_s, used.rss_mb, COMMAND)
    samples = [Sample("consumer_app.stored", stored, "messages/s", *cost)]
    for name, found in (("in_process", inside), ("http", outside)):
        for part in (50, 99):
            value = found[len(found) * part // 100] * 1000
            samples.append(Sample(f"consumer_app.by_key.{name}.p{part}", value, "ms", *cost))
    return [*samples, Sample("consumer_app.text_1m", text_s, "s", *cost)]


def _key(number: int) -> bytes:
    return b"key-%d" % (number % KEYS)


def _timed(ask: Callable[[str], object]) -> list[float]:
    """Return how long queries took, sorted."""
    chance = random.Random(1)
    found = []
    for _ in range(QUERIES):
        key = _key(chance.randrange(KEYS)).decode()
        began_s = time.perf_counter()
        if not ask(key):
            raise LookupError(f"{key} is not found")
        found.append(time.perf_counter() - began_s)
    return sorted(found)


def _ask(connection: http.client.HTTPConnection, key: str) -> bytes:
    connection.request("GET", f"/v1/latest/{key}")
    answer = connection.getresponse()
    body = answer.read()
    return body if answer.status == http.HTTPStatus.OK else b""


@contextmanager
def _serving(directory: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    environment = {
        **os.environ, "CONSUMER_TOPIC": "t", "CONSUMER_PORT": str(port),
        "STORAGE_DATA_DIR": str(directory), "BROKER_PORT": str(free_port()),
    }  # fmt: skip
    command = [sys.executable, "-m", "chordmq", "consumer-app"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline_s = time.monotonic() + 60
            while not _is_up(port):
                if time.monotonic() > deadline_s:
                    raise TimeoutError("the consumer application does not answer")
                time.sleep(0.05)
            yield port, process.pid
        finally:
            process.kill()


def _is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5):
            return True
    except OSError:
        return False

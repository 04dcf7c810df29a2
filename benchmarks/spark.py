"""Spark reads one topic of a ChordMQ node: by format("chordmq"), and by its own Kafka connector.

Each runs in a process of its own, so that neither finds a machine that the other has warmed up.
Broker and Spark share the machine, so that our source reads the broker's files; as it does without
them, and what Spark alone takes for as many rows, is measured beside it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import load, wire
from benchmarks.peers import ROOT, PeerFailed, start_chordmq
from benchmarks.prebuilt import Prebuilt
from benchmarks.session import OURS, CountMismatch, Sample
from benchmarks.usage import usage_of
from chordmq.records.record import NewRecord, build_batch
from chordmq_spark.session import start_spark

TOPIC, PARTITIONS, ROWS_PER_BATCH = "rows", 4, 500
CONNECTOR = ROOT / ".cache" / "interop" / "spark" / "lib"
COMMAND = "python -m benchmarks --case spark"
TIMEOUT_S = 900.0
BATCHES = {"maxOffsetsPerTrigger": "1000000"}
"""A stream in batches has to plan each of them; without it, all that is there now is one."""
WARM_RUNS = 4
"""Java's compiler is at work for the first three, whichever source is read; the best one counts."""
TABLE, STREAM = "spark_table", "spark_stream"
GOALS = (TABLE, STREAM, f"{STREAM}_batches")


def spark(directory: Path, ours: bool, rows: int) -> list[Sample]:
    """Fill a topic and have Spark read it as a table and as a stream; `ours` picks the source."""
    peer = start_chordmq(directory)
    try:
        load.create_topic(peer.bootstrap, TOPIC, PARTITIONS, OURS["os"])
        written = fill(peer.bootstrap, rows)
        os.sync()  # or the disk would still write while the first runs are timed
        before = usage_of(peer.pid)
        kind = "chordmq" if ours else "kafka"
        found = _measured(kind, peer.bootstrap, directory, written)
        after = usage_of(peer.pid)
    finally:
        peer.stop()
    for name, (rows_read, _) in found.items():
        if rows_read != written:
            raise CountMismatch(f"{name}: {written} rows written, {rows_read} read")
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    return [
        Sample(name, rows_read / seconds, "rows/s", *cost, goal="spark" if name in GOALS else "")
        for name, (rows_read, seconds) in found.items()
    ]


def fill(bootstrap: str, rows: int) -> int:
    """Write readings of about 150 bytes, evenly over the partitions; return how many there are."""
    batches = rows // (PARTITIONS * ROWS_PER_BATCH)
    now_ms = time.time_ns() // 1_000_000
    records = [
        NewRecord(now_ms + i, b"device-%05d" % i, _reading(now_ms + i, i))
        for i in range(ROWS_PER_BATCH)
    ]
    with wire.connect(bootstrap) as sock:
        for partition in range(PARTITIONS):
            frame = wire.produce_request(TOPIC, partition, bytes(build_batch(records)), acks=1)
            for _ in range(batches):
                sock.sendall(frame)
                if error := wire.produce_error(wire.read_answer(sock), TOPIC):
                    raise wire.WireError(f"produce answered with error {error}")
    return batches * PARTITIONS * ROWS_PER_BATCH


def _reading(time_ms: int, number: int) -> bytes:
    said = {"messageId": f"m-{number:012}", "timestamp": time_ms, "source": f"device-{number:05}"}
    payload = {"metric": "temperature", "value": 20 + number % 17 / 10, "unit": "C"}
    return json.dumps({"metadata": said, "payload": payload}).encode()


def _measured(
    kind: str, bootstrap: str, directory: Path, rows: int
) -> dict[str, tuple[int, float]]:
    """Run the reader in a process of its own; return rows and seconds by name."""
    command = [sys.executable, "-m", "benchmarks.spark", kind, bootstrap, str(directory), str(rows)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise PeerFailed(f"Spark ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, tuple[int, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


class Reader:
    """Reads the topic by one of the two sources."""

    def __init__(self, session: SparkSession, kind: str, options: dict[str, str]) -> None:
        self._session = session
        self._kind = kind
        self._options = options

    def _asked(self, columns: str) -> dict[str, str]:
        """Return the options, with the columns that a query uses: a source in Python is not told.

        Spark's connector takes no such option; Spark drops for itself what a table does not need.
        """
        return self._options | ({"columns": columns} if self._kind == "chordmq" else {})

    def table(self) -> tuple[int, float]:
        """Count and sum up the whole topic."""
        started = time.perf_counter()
        asked = self._asked("value,offset,timestamp")
        frame = self._session.read.format(self._kind).options(**asked).load()
        (row,) = frame.agg(
            F.count("*"), F.max("offset"), F.sum(F.length("value")), F.max("timestamp")
        ).collect()
        return row[0], time.perf_counter() - started

    def stream(self, checkpoint: Path, **limits: str) -> tuple[int, float]:
        """Sum up what is there now, in micro-batches if there are limits for one."""
        reader = self._session.readStream.format(self._kind)
        asked = self._asked("value,offset")
        frame = reader.options(**asked, **limits, startingOffsets="earliest").load()
        counted = [0]

        def add(batch: DataFrame, _: int) -> None:
            (row,) = batch.agg(F.count("*"), F.max("offset"), F.sum(F.length("value"))).collect()
            counted[0] += row[0]

        started = time.perf_counter()
        writer = frame.writeStream.foreachBatch(add).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        return counted[0], time.perf_counter() - started


def main() -> None:
    """Measure one source on a running node, and print what was found."""
    kind, bootstrap, directory, rows = sys.argv[1:]
    jars = ",".join(map(str, sorted(CONNECTOR.glob("*.jar"))))
    session = start_spark(
        "benchmark", master="local[2]", directory=Path(directory), settings={"spark.jars": jars}
    )
    asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
    reader = Reader(session, kind, asked)
    checkpoints = (Path(directory) / f"checkpoint-{number}" for number in count())
    readings: dict[str, Callable[[], tuple[int, float]]] = {
        TABLE: reader.table,
        STREAM: lambda: reader.stream(next(checkpoints)),
        f"{STREAM}_batches": lambda: reader.stream(next(checkpoints), **BATCHES),
    }
    if kind == "chordmq":
        wire = Reader(session, kind, asked | {"localFiles": "false"})
        session.dataSource.register(Prebuilt)
        value = _reading(0, 0).decode()
        alone = {"rows": rows, "tasks": str(PARTITIONS), "value": value}
        readings[f"{TABLE}_wire"] = wire.table
        readings[f"{STREAM}_wire"] = lambda: wire.stream(next(checkpoints))
        readings[f"{TABLE}_prebuilt"] = Reader(session, Prebuilt.name(), alone).table
    found = {}
    for name, read in readings.items():
        first = read()
        if name in GOALS:
            found[f"{name}_first"] = first
        found[name] = min((read() for _ in range(WARM_RUNS)), key=lambda one: one[1])
    session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""A topic into its archive: how many bytes of the log become Parquet in a second."""

import time
from pathlib import Path

from benchmarks import load
from benchmarks.peers import start_chordmq
from benchmarks.session import OURS, CountMismatch, Sample
from benchmarks.spark import PARTITIONS, TOPIC, fill
from benchmarks.usage import usage_of
from chordmq.archive.archiver import Archiver
from chordmq.archive.table import Archive
from chordmq.client.bulk import Bulk, BulkSettings

COMMAND = "python -m benchmarks --case archive"
MB = 1_000_000


def archive(directory: Path, rows: int) -> list[Sample]:
    """Write readings, archive them all by one process."""
    peer = start_chordmq(directory / "node")
    target = Archive(directory / "archive")
    try:
        load.create_topic(peer.bootstrap, TOPIC, PARTITIONS, OURS["os"])
        written = fill(peer.bootstrap, rows)
        size = sum(path.stat().st_size for path in (directory / "node").rglob(f"{TOPIC}-*/*.log"))
        with Bulk(BulkSettings(bootstrap=peer.bootstrap)) as broker:
            started, used = time.perf_counter(), time.process_time()
            moved = Archiver(broker, target).archive(TOPIC)
            seconds, used = time.perf_counter() - started, time.process_time() - used
        rss_mb = usage_of(peer.pid).rss_mb
    finally:
        target.close()
        peer.stop()
    if moved.records != written:
        raise CountMismatch(f"{written} records written, {moved.records} archived")
    cost = (used, rss_mb, COMMAND)
    return [Sample("archive", size / MB / seconds, "MB/s", *cost)]

"""Draws where a node spends its time under one load, as a flame graph (py-spy)."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import load, sockets
from benchmarks.peers import ROOT, start_chordmq

SECONDS = 8
SAMPLES_PER_S = 400
SETTLE_S = 1.0
BATCH = (1000, 100)


def produce(bootstrap: str, topic: str) -> None:
    """Produce prebuilt batches of 1,000 records."""
    sockets.produce_pipelined(bootstrap, topic, BATCH, (SECONDS, 1_000_000_000))


def librdkafka(bootstrap: str, topic: str) -> None:
    """Produce 100-byte messages as a service would."""
    load.produce(bootstrap, topic, 100, {"acks": "1"}, (SECONDS, 1_000_000_000))


def unbatched(bootstrap: str, topic: str) -> None:
    """Produce one record per request from 50 connections."""
    sockets.produce_in_turn(bootstrap, topic, 50, SECONDS)


def fetch(bootstrap: str, topic: str) -> None:
    """Read the same topic again and again."""
    end = sockets.produce_pipelined(bootstrap, topic, BATCH, (60, 3000)).count
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        sockets.read_partition(bootstrap, topic, 0, end)


LOADS: dict[str, Callable[[str, str], None]] = {
    "produce": produce,
    "librdkafka": librdkafka,
    "unbatched": unbatched,
    "fetch": fetch,
}


def main() -> int:
    """Start a node, load it, sample it and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flame", description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--out", type=Path, help="default: benchmarks/out/flame_LOAD.svg")
    options = parser.parse_args()
    out = options.out or ROOT / "benchmarks" / "out" / f"flame_{options.load}.svg"
    out.parent.mkdir(parents=True, exist_ok=True)
    (ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=ROOT / ".cache" / "bench"))
    try:
        _draw(LOADS[options.load], directory, out)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _draw(run: Callable[[str, str], None], directory: Path, out: Path) -> None:
    node = start_chordmq(directory)
    try:
        load.create_topic(node.bootstrap, "flame", 1, {"flush": "os"})
        spy = ["py-spy", "record", "--nonblocking", "--format"]
        spy += ["raw" if out.suffix == ".txt" else "flamegraph", "--duration", str(SECONDS - 2)]
        spy += ["--rate", str(SAMPLES_PER_S), "--output", out.name, "--pid", str(node.pid)]
        # The picture's heading is this command line, so it must not name folders of this machine.
        sampler = subprocess.Popen(
            spy, executable=Path(sys.executable).parent / "py-spy", cwd=out.parent
        )
        time.sleep(SETTLE_S)
        run(node.bootstrap, "flame")
        sampler.wait()
    finally:
        node.stop()


if __name__ == "__main__":
    sys.exit(main())

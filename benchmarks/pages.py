"""What new memory costs this machine, and what appending to a file costs by the size of its pieces.

`python -m benchmarks.pages` touches memory a GiB at a time, then appends a GiB to a file in pieces
as large as batches are, three times each: the least is the cost in memory that the machine has.
"""

import argparse
import mmap
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import ROOT

GIB = 1 << 30
BATCH = 130_900
"""Bytes of a full batch of librdkafka: no multiple of a page."""
RUNS = 3
_MIB = bytes(1 << 20)


def touch(count: int) -> Iterator[float]:
    """Yield how many seconds each further GiB of memory takes to be written for the first time."""
    with mmap.mmap(-1, count * GIB) as memory:
        for start in range(0, count * GIB, GIB):
            began = time.perf_counter()
            for position in range(start, start + GIB, len(_MIB)):
                memory[position : position + len(_MIB)] = _MIB
            yield time.perf_counter() - began


def append(path: Path, piece: int, together: int) -> float:
    """Return how many seconds of processor time a GiB takes, with so many pieces in one call."""
    pieces = [os.urandom(piece)] * together
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    try:
        written, began = 0, time.process_time()
        while written < GIB:
            written += os.writev(descriptor, pieces)
        return (time.process_time() - began) / (written / GIB)
    finally:
        os.close(descriptor)
        path.unlink()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--gib", type=int, default=8, help="memory to touch")
    options = parser.parse_args()
    for number, took_s in enumerate(touch(options.gib), 1):
        print(f"GiB {number} of new memory: {took_s:.2f} s", flush=True)
    work = ROOT / ".cache"
    work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as directory:
        for piece, together in ((1 << 17, 1), (BATCH, 1), (BATCH, 2), (BATCH, 4), (BATCH, 8)):
            costs = sorted(append(Path(directory) / "file", piece, together) for _ in range(RUNS))
            shown = ", ".join(f"{cost:.2f}" for cost in costs)
            print(
                f"{together} x {piece:,} bytes a call: {shown} s of processor time a GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()

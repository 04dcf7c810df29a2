"""What it costs to send what lies in the page cache: read and sent, checked on the way, or not.

`python -m benchmarks.reading` sends a file to another process in pieces of 1 MiB and prints the
rate and the sender's processor time, for each way to do it.
"""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import PROT_READ, mmap

from crc32c import crc32c

PIECE = 1 << 20
PIECES = 512
TURNS = 4

Way = Callable[[int, socket.socket], None]


def by_sendfile(file: int, to: socket.socket) -> None:
    """Have the kernel send pages that nobody looks at."""
    at, end = 0, PIECE * PIECES
    while at < end:
        at += os.sendfile(to.fileno(), file, at, PIECE)


def by_reading(file: int, to: socket.socket) -> None:
    """Copy each piece, and send it."""
    for number in range(PIECES):
        to.sendall(os.pread(file, PIECE, number * PIECE))


def by_checking(file: int, to: socket.socket) -> None:
    """Copy each piece, check it, and send it, as the node does."""
    for number in range(PIECES):
        data = os.pread(file, PIECE, number * PIECE)
        crc32c(data)
        to.sendall(data)


def by_mapping(file: int, to: socket.socket) -> None:
    """Send pieces of a mapped file that nobody looks at."""
    with mmap(file, 0, prot=PROT_READ) as mapped, memoryview(mapped) as view:
        for number in range(PIECES):
            with view[number * PIECE : (number + 1) * PIECE] as piece:
                to.sendall(piece)


WAYS: dict[str, Way] = {
    "sendfile": by_sendfile,
    "pread, send": by_reading,
    "pread, crc32c, send": by_checking,
    "mmap, send": by_mapping,
}


def measured(way: Way, file: int) -> tuple[float, float]:
    """Return bytes a second, and processor time for a GB of them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = multiprocessing.Process(target=_take, args=(listener.getsockname(),))
        reader.start()
        to, _ = listener.accept()
        with to:
            began_s, used_s = time.perf_counter(), time.process_time()
            for _ in range(TURNS):
                way(file, to)
            took_s, used_s = time.perf_counter() - began_s, time.process_time() - used_s
        reader.join()
    size = TURNS * PIECES * PIECE
    return size / took_s, used_s / size * 1e9


def cost_of(way: Way) -> float:
    """Return the processor time of sending a GB in one way."""
    with filled() as file:
        return measured(way, file)[1]


@contextmanager
def filled() -> Iterator[int]:
    """Give a file that the page cache has."""
    with tempfile.TemporaryFile() as file:
        for _ in range(PIECES):
            file.write(os.urandom(PIECE))
        file.flush()
        yield file.fileno()


def _take(address: tuple[str, int]) -> None:
    buffer = bytearray(PIECE)
    with socket.create_connection(address) as source:
        while source.recv_into(buffer):
            pass


def main() -> None:
    """Print a line for each way."""
    with filled() as file:
        for name, way in WAYS.items():
            rate, cost = measured(way, file)
            print(f"{name:20} {rate / 1e9:.2f} GB/s  {cost:.3f} CPU s/GB")


if __name__ == "__main__":
    main()

"""Runs the servers that a front is compared with, each for the length of a case."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers import PeerFailed

TIMEOUT_S = 60.0

Running = tuple[tuple[str, int], int]
"""The address, and the process id."""


@contextmanager
def run_server(command: list[str], port: int) -> Iterator[Running]:
    """Start a server, wait until it listens, and end it after the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = ("127.0.0.1", port)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(address, timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise PeerFailed(f"{command[0]} does not answer") from None
                time.sleep(0.02)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()

"""A disk for tests that gives what is not in memory when it is told to."""

import os
import threading

from chordmq.storage.cold import ColdRange


class Disk:
    """Has what the page cache does not have; a test says when a thread gets it."""

    def __init__(self) -> None:
        self.is_warm = False
        self.forgets = False
        self.may_go_on = threading.Event()

    def is_cached(self, _fd: int, _position: int) -> bool:
        return self.is_warm and not self.forgets

    def fetch(self, wanted: ColdRange) -> None:
        self.may_go_on.wait()
        self.is_warm = True
        os.close(wanted.fd)

"""Group members of unmodified clients, each a process of its own that a test may kill."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.interop.program import ROOT, built, installed

DEADLINE_S = 60.0
CLASSES = ROOT / ".cache" / "interop" / "java" / "classes"
LIBRARIES = ROOT / ".cache" / "interop" / "java" / "lib"
OPTIONS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


def java() -> list[str]:
    """Return the command of a member that uses the Java client."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    return [installed("java"), *OPTIONS, "-cp", classpath, "GroupMember"]


def librdkafka() -> list[str]:
    """Return the command of a member that uses librdkafka."""
    return [sys.executable, str(ROOT / "tests" / "interop" / "librdkafka_member.py")]


CLIENTS: dict[str, Callable[[], list[str]]] = {"java": java, "librdkafka": librdkafka}


class GroupMember:
    """A running member, with an account of what it was given and what it read."""

    def __init__(self, client: str, bootstrap: str, topic: str, **settings: str) -> None:
        names = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        self.events: list[tuple[str, list[str]]] = []
        self._read: list[str] = []
        self._process = subprocess.Popen(
            [*CLIENTS[client](), bootstrap, topic, *names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *names = line.split()
            if what == "read":
                self._read.extend(names)
            else:
                self.events.append((what, names))

    @property
    def values(self) -> Counter[str]:
        """Return how often each value was read so far, while more may come."""
        return Counter(list(self._read))

    def partitions(self) -> set[str]:
        """Return what the member reads now, as its callbacks tell."""
        held: set[str] = set()
        for what, names in list(self.events):
            if what == "assigned":
                held |= set(names)
            elif what in ("revoked", "lost"):
                held -= set(names)
        return held

    def kill(self) -> None:
        """End the process as a crash would."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Have the member leave its group and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()
        assert self._process.returncode == 0, self.events

    def _end(self) -> None:
        self._process.wait(DEADLINE_S)
        self._listener.join(DEADLINE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """End the process if it still runs."""
        if self._process.poll() is None:
            self.kill()


@contextmanager
def starting() -> Iterator[Callable[..., GroupMember]]:
    """Give a function that starts members; all of them end with the block."""
    started: list[GroupMember] = []

    def start(client: str, bootstrap: str, topic: str, **settings: str) -> GroupMember:
        member = GroupMember(client, bootstrap, topic, **settings)
        started.append(member)
        return member

    try:
        yield start
    finally:
        for member in started:
            member.close()


def until(is_so: Callable[[], bool], *members: GroupMember) -> None:
    """Wait until something is so; fail with what the members have seen if it takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, [member.events for member in members]
        time.sleep(0.02)


def share(count: int, *members: GroupMember) -> Callable[[], bool]:
    """Return whether every partition belongs to exactly one member and none goes without."""

    def is_shared() -> bool:
        parts = [member.partitions() for member in members]
        return all(parts) and sum(map(len, parts)) == len(set().union(*parts)) == count

    return is_shared

"""Who waits for a commit is told once, in order, and of failure and end, too."""

import asyncio

from chordmq.broker.commits import Commits
from chordmq.errors import NotLeader


class Noted:
    """A waiter that notes in a list what it is told."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name = name
        self._told = told
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_result(self, _: None) -> None:
        self._told.append(self._name)

    def set_exception(self, error: BaseException) -> None:
        self._told.append(f"{self._name}: {error}")

    def cancel(self) -> bool:
        self._told.append(f"{self._name} ended")
        return True


def test_those_are_told_whose_offset_is_reached() -> None:
    """C1: in the order in which they wait, each once."""
    commits, told = Commits(), list[str]()
    for offset in (1, 3, 7):
        commits.add(offset, Noted(str(offset), told))
    commits.reached(0)
    assert told == []
    commits.reached(3)
    commits.reached(3)
    assert told == ["1", "3"]
    commits.reached(9)
    assert told == ["1", "3", "7"]


def test_who_does_not_wait_any_more_is_told_nothing() -> None:
    """C12: its client may be gone."""
    commits, told = Commits(), list[str]()
    gone = Noted("gone", told)
    gone.is_done = True
    commits.add(1, gone)
    commits.add(2, Noted("here", told))
    commits.reached(2)
    assert told == ["here"]
    commits.add(3, gone)
    commits.fail(NotLeader("another leads"))
    assert told == ["here"]


def test_a_failure_and_the_end_are_told_to_all_who_wait() -> None:
    """C1: and nobody is told twice."""
    commits, told = Commits(), list[str]()
    commits.add(1, Noted("first", told))
    commits.fail(NotLeader("another leads"))
    commits.add(2, Noted("second", told))
    commits.end()
    commits.end()
    commits.reached(9)
    assert told == ["first: another leads", "second ended"]


async def test_futures_are_told_and_do_not_complain_when_nobody_looks() -> None:
    """C12: a failure that nobody asks for is no fault of the program."""
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    commits = Commits()
    commits.add(1, loop.create_future())
    commits.fail(NotLeader("another leads"))
    future: asyncio.Future[None] = loop.create_future()
    commits.add(2, future)
    commits.reached(2)
    await future
    assert not complaints

"""Whose turn it is, and how many messages may be dealt out at once."""

from collections.abc import Sequence
from typing import Any

from chordmq.broker.queues.consumer import Consumer
from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.turns import Turns


class Pipe:
    """A link with room for so many bytes."""

    def __init__(self, left: int = 1000) -> None:
        self.left = left

    def room_for(self, sizes: Sequence[int]) -> int:
        fitting = [number for number in range(len(sizes)) if sum(sizes[:number]) < self.left]
        return len(fitting)


class Worker:
    """A consumer that has room for so many messages."""

    no_ack = False
    tag = client_id = "worker"

    def __init__(self, limit: int, pipe: Pipe | None = None, order: object = None) -> None:
        self.limit = limit
        self.priority = 0
        self.link = pipe or Pipe()
        self.order = order or self
        self.in_bulk: Worker | None = self

    def has_room(self) -> bool:
        return self.limit > 0

    def room(self) -> int:
        return self.limit

    def deliver(self, queue: Queue, entry: Entry) -> None:
        raise AssertionError("nothing is delivered here")

    def deliver_stretch(self, queue: Queue, stretch: Stretch) -> None:
        raise AssertionError("nothing is delivered here")

    def cancelled(self) -> None:
        raise AssertionError("nothing is deleted here")


def dealt(consumers: list[Worker], sizes: list[int]) -> tuple[list[int], int, int]:
    """Return the places of those who get messages, how many, and whose turn it is then."""
    given: list[Consumer] = [*consumers]
    turns = Turns(given, single_active=False)
    assert turns.chosen() is not None
    circle, count = turns.dealt(sizes)
    places: list[Any] = [*consumers]
    return [places.index(one) for one in circle], count, places.index(turns.chosen())


def test_all_that_have_room_take_turns_as_far_as_the_messages_go() -> None:
    workers = [Worker(9), Worker(0), Worker(9), Worker(9)]
    assert dealt(workers, [1] * 14) == ([0, 2, 3], 14, 3)
    assert dealt(workers, [1] * 15) == ([0, 2, 3], 15, 0)


def test_who_has_little_room_ends_the_round_and_not_more() -> None:
    assert dealt([Worker(9), Worker(5), Worker(9)], [1] * 20) == ([0, 1, 2], 15, 0)


def test_few_messages_are_given_one_by_one() -> None:
    workers = [Worker(9), Worker(9), Worker(9)]
    assert dealt(workers, [1] * 11) == ([], 0, 1)
    assert dealt([Worker(9), Worker(3)], [1] * 20) == ([], 0, 1)
    assert dealt([Worker(3), Worker(9)], [1] * 20) == ([], 0, 1)


def test_those_of_lower_priority_get_nothing_while_others_have_room() -> None:
    workers = [Worker(9), Worker(9), Worker(9)]
    workers[0].priority = workers[1].priority = 1
    assert dealt(workers, [1] * 9) == ([0, 1], 9, 1)


def test_what_consumers_share_is_not_given_twice() -> None:
    pipe = Pipe(18)
    workers = [Worker(99, pipe), Worker(99), Worker(99, pipe)]
    assert dealt(workers, [2] * 30) == ([0, 1, 2], 12, 0)  # nine of the pipe's own would fit
    assert dealt(workers, [9] * 30) == ([], 0, 1)
    assert dealt(workers, [99] * 30) == ([], 0, 1)


def test_whose_messages_stay_in_one_order_get_them_one_by_one() -> None:
    channel = object()
    assert dealt([Worker(9, order=channel), Worker(9, order=channel)], [1] * 14) == ([], 0, 1)


def test_who_takes_no_more_than_one_has_all_take_them_one_by_one() -> None:
    workers = [Worker(9), Worker(9)]
    workers[1].in_bulk = None
    assert dealt(workers, [1] * 14) == ([], 0, 1)

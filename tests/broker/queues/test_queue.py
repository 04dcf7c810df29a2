"""The machine of one queue, without a broker around it."""

from collections.abc import Sequence

import pytest

from chordmq.broker.queues import queue as machine
from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.queue import Queue
from tests.broker.queues.keeper import HERE, fill, made


class Taker:
    """A consumer that keeps what it gets."""

    is_bulk = False

    def __init__(self, limit: int = 1000, priority: int = 0) -> None:
        self.limit = limit
        self.priority = priority
        self.no_ack = False
        self.tag = self.client_id = "taker"
        self.got: list[Entry] = []

    @property
    def in_bulk(self) -> "Taker | None":
        return self if self.is_bulk else None

    @property
    def link(self) -> "Taker":
        return self

    @property
    def order(self) -> object:
        return self

    def room_for(self, sizes: Sequence[int]) -> int:
        return len(sizes)

    def room(self) -> int:
        return self.limit - len(self.got)

    def deliver_stretch(self, queue: Queue, stretch: Stretch) -> None:
        self.got += stretch.entries()

    def has_room(self) -> bool:
        return len(self.got) < self.limit

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self.got.append(entry)

    def cancelled(self) -> None:
        raise AssertionError("nothing is deleted here")

    @property
    def bodies(self) -> list[str]:
        return [(entry.body or b"").decode() for entry in self.got]


@pytest.fixture(params=[False, True], ids=["one by one", "in bulk"], autouse=True)
def is_bulk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every rule hold for consumers that take many messages at once, too."""
    monkeypatch.setattr(Taker, "is_bulk", request.param)


def test_messages_that_are_acknowledged_together_are_stored_once() -> None:
    queue, keeper = made()
    consumer = Taker()
    queue.add_consumer(consumer)
    fill(queue, keeper, *"abc")
    queue.finish_all(consumer.got)
    assert (queue.unacked, queue.finished, queue.sources[HERE].start) == (0, 3, 3)
    assert keeper.touches == 1


def test_a_consumer_gets_no_more_than_it_has_room_for() -> None:
    queue, keeper = made()
    consumer = Taker(limit=2)
    queue.add_consumer(consumer)
    fill(queue, keeper, *"abc")
    fill(queue, keeper, *"de")
    assert (consumer.bodies, queue.ready, queue.unacked) == (["a", "b"], 3, 2)
    consumer.limit = 4
    queue.pump()
    assert (consumer.bodies, queue.ready, queue.ready_bytes) == (["a", "b", "c", "d"], 1, 1)
    left = queue.get()
    assert left is not None
    assert (left.body, left.offset) == (b"e", 4)


def test_all_kinds_of_messages_keep_their_order() -> None:
    queue, keeper = made()
    fill(queue, keeper, *"ab")
    fill(queue, keeper, "c", expiration="60000")
    fill(queue, keeper, *"de")
    consumer = Taker(limit=3)
    queue.add_consumer(consumer)
    queue.pump()
    consumer.limit = 6
    queue.requeue([consumer.got.pop(), consumer.got.pop()])
    assert consumer.bodies == [*"abcde"]
    assert [entry.deliveries for entry in consumer.got] == [1, 2, 2, 1, 1]


def test_consumers_take_turns() -> None:
    """A3: each message goes to one of them."""
    queue, keeper = made()
    first, second = Taker(), Taker()
    queue.add_consumer(first)
    queue.add_consumer(second)
    fill(queue, keeper, *"abcd")
    assert (first.bodies, second.bodies) == (["a", "c"], ["b", "d"])


def test_a_consumer_of_higher_priority_comes_first_while_it_has_room() -> None:
    queue, keeper = made()
    low, high = Taker(), Taker(limit=2, priority=5)
    queue.add_consumer(low)
    queue.add_consumer(high)
    fill(queue, keeper, *"abc")
    assert (high.bodies, low.bodies) == (["a", "b"], ["c"])


def test_with_a_single_active_consumer_the_next_one_follows_when_it_leaves() -> None:
    queue, keeper = made(single_active_consumer=True)
    first, second = Taker(), Taker()
    queue.add_consumer(first)
    queue.add_consumer(second)
    fill(queue, keeper, "a")
    queue.remove_consumer(first)
    fill(queue, keeper, "b")
    assert (first.bodies, second.bodies) == (["a"], ["b"])


def test_messages_that_come_back_keep_their_place_and_are_counted() -> None:
    queue, keeper = made()
    fill(queue, keeper, *"abcd")
    held = [queue.get() for _ in range(3)]
    entries = [entry for entry in held if entry is not None]
    queue.requeue([entries[2], entries[0]])
    assert (queue.ready, queue.unacked) == (3, 1)
    again = [queue.get() for _ in range(3)]
    assert [entry.offset for entry in again if entry is not None] == [0, 2, 3]
    assert [entry.deliveries for entry in again if entry is not None] == [2, 2, 1]


def test_what_is_tried_too_often_is_given_up() -> None:
    queue, keeper = made(delivery_limit=1, dead_letter_exchange="x", queue_type="quorum")
    fill(queue, keeper, "poison")
    for _ in range(2):
        entry = queue.get()
        assert entry is not None
        queue.requeue([entry])
    assert keeper.dead == [("poison", "delivery_limit")]
    assert queue.ready == queue.unacked == 0


def test_the_oldest_go_when_a_queue_is_too_long() -> None:
    queue, keeper = made(max_length=2, dead_letter_exchange="x")
    fill(queue, keeper, *"abc")
    fill(queue, keeper, "d")
    assert keeper.dead == [("a", "maxlen"), ("b", "maxlen")]


def test_a_queue_that_refuses_says_when_it_is_full() -> None:
    queue, keeper = made(max_length=2, overflow="reject-publish")
    fill(queue, keeper, "a")
    assert not queue.is_full
    queue.announced += 1
    assert queue.is_full


def test_messages_expire_at_the_head_only() -> None:
    queue, keeper = made(dead_letter_exchange="x")
    fill(queue, keeper, "long", expiration="5000")
    fill(queue, keeper, "short", expiration="10")
    keeper.clock.advance(1000)
    queue.expire()
    assert keeper.dead == []
    assert queue.get() is not None
    assert queue.get() is None
    assert keeper.dead == [("short", "expired")]


def test_the_shorter_of_two_times_to_live_counts_and_sets_the_alarm() -> None:
    queue, keeper = made(message_ttl=1000)
    fill(queue, keeper, "a", expiration="50")
    fill(queue, keeper, "b", expiration="9000")
    assert keeper.alarms[0] == keeper.now_ms() + 50
    keeper.clock.advance(50)
    queue.expire()
    assert (queue.ready, keeper.alarms[-1]) == (1, keeper.now_ms() + 950)


def test_higher_priorities_come_first_and_each_keeps_its_order() -> None:
    queue, keeper = made(max_priority=5)
    for body, priority in (("a", 1), ("b", 9), ("c", 0), ("d", 5), ("e", 1)):
        fill(queue, keeper, body, priority=priority)
    taker = Taker()
    queue.add_consumer(taker)
    queue.pump()
    assert taker.bodies == ["b", "d", "a", "e", "c"]


def test_purging_leaves_what_consumers_hold() -> None:
    queue, keeper = made()
    fill(queue, keeper, *"abc")
    held = queue.get()
    assert held is not None
    assert queue.purge() == 2
    assert (queue.ready, queue.unacked) == (0, 1)
    queue.requeue([held])
    assert queue.ready == 1


def test_a_body_that_was_let_go_is_read_from_the_log_again() -> None:
    queue, keeper = made()
    fill(queue, keeper, "a")
    entry = queue.get()
    assert entry is not None
    entry.body = None
    queue.requeue([entry])
    again = queue.get()
    assert again is not None
    assert again.body == b"again 0"


def test_memory_is_bounded_and_the_log_is_asked_when_it_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E4: a long queue costs no memory beyond its window."""
    monkeypatch.setattr(machine, "WINDOW_MESSAGES", 3)
    queue, keeper = made()
    fill(queue, keeper, *"abc")
    assert queue.has_window is False
    queue.arrived(1)  # stays in the log
    for _ in range(3):
        queue.get()
    assert (queue.ready, keeper.refills) == (1, 0)
    queue.get()
    assert keeper.refills == 1

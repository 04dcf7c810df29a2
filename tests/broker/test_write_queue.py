"""Which writes go into one batch of a coordinator's log, and which fail together."""

from chordmq.broker.producers import Incarnation
from chordmq.broker.write_queue import JOINED_RECORDS_MAX, Write, WriteQueue, end
from chordmq.errors import ChordMQError, NotCoordinator
from chordmq.records.marker import Marker

PRODUCER = Incarnation(7, 0)
MARKER = Marker(7, epoch=0, is_commit=True)


def write(
    name: str = "", count: int = 1, epoch: int | None = None, *, is_alone: bool = False
) -> Write[int]:
    producer = PRODUCER if is_alone else None
    return Write(name, list(range(count)), lambda _: None, producer, epoch=epoch)


def batches(*writes: Write[int]) -> list[list[str]]:
    queue: WriteQueue[int] = WriteQueue()
    for one in writes:
        queue.add(one)
    taken = []
    while some := queue.take():
        taken.append([one.name for one in some])
    return taken


def test_what_waits_goes_into_one_batch_in_its_order() -> None:
    assert batches(write("a"), write("b"), write("a")) == [["a", "b", "a"]]


def test_a_batch_has_no_more_records_than_allowed_unless_one_write_has_them() -> None:
    many = JOINED_RECORDS_MAX
    assert batches(write("a", many), write("b"), write("c")) == [["a"], ["b", "c"]]
    assert batches(write("a", many + 1), write("b")) == [["a"], ["b"]]


def test_transactions_and_their_ends_have_batches_of_their_own() -> None:
    marker: Write[int] = Write("", [], lambda _: None, marker=MARKER)
    assert batches(write("a"), write("t", is_alone=True), write("b")) == [["a"], ["t"], ["b"]]
    assert batches(marker, write("b")) == [[""], ["b"]]


def test_what_was_decided_in_different_leader_epochs_is_not_written_together() -> None:
    assert batches(write("a", epoch=4), write("b", epoch=4), write("c", epoch=6)) == [
        ["a", "b"],
        ["c"],
    ]


def test_a_write_that_fails_takes_those_of_its_name_along() -> None:
    queue: WriteQueue[int] = WriteQueue()
    for name in ("a", "b", "a", ""):
        queue.add(write(name))
    failed = queue.take()[:1]
    for name in ("b", "a"):
        queue.add(write(name))
    assert [one.name for one in queue.take_behind(failed)] == ["a"]
    assert [one.name for one in queue.take_all()] == ["b"]
    assert queue.take() == []


def test_everybody_is_told_what_became_of_a_write() -> None:
    told: list[ChordMQError | None] = []
    error = NotCoordinator("gone")
    end([Write("a", [1], told.append), Write("b", [2], told.append)], error)
    end([Write("c", [3], told.append)], None)
    assert told == [error, error, None]

"""Proves which answers a follower believes, and what it does to its log."""

from itertools import count

from chordmq.cluster.replication.follower import Again, Append, Cut, Follower, Restart
from chordmq.codecs.peer.replica import Answer, Outcome
from tests.sim.brokers import SimLog


def following(*records: tuple[int, int]) -> tuple[Follower, SimLog]:
    log = SimLog()
    log.records = list(records)
    return Follower(1, 5, log, 0, count(100)), log


def test_it_fetches_only_once_its_records_are_safe() -> None:
    follower, _ = following((3, 1), (4, 2))
    assert follower.fetch(safe_offset=1) is None
    fetch = follower.fetch(safe_offset=2)
    assert fetch is not None
    assert (fetch.leader_epoch, fetch.offset, fetch.last_epoch) == (5, 2, 4)


def test_it_has_one_fetch_open_at_a_time() -> None:
    follower, _ = following()
    assert follower.fetch(0) is not None
    assert follower.fetch(0) is None
    follower.on_lost()
    assert follower.fetch(0) is not None


def test_it_takes_only_the_answer_to_its_last_fetch_from_its_leader() -> None:
    follower, _ = following()
    first = follower.fetch(0)
    follower.on_lost()
    last = follower.fetch(0)
    assert first is not None
    assert last is not None
    assert follower.on_answer(1, Answer(first.id, 5, Outcome.RECORDS)) is None
    assert follower.on_answer(2, Answer(last.id, 5, Outcome.RECORDS)) is None
    assert follower.on_answer(1, Answer(last.id, 4, Outcome.RECORDS)) is None
    assert follower.on_answer(1, Answer(last.id, 5, Outcome.RECORDS)) == Append(())
    assert follower.on_answer(1, Answer(last.id, 5, Outcome.RECORDS)) is None


def test_it_cuts_its_log_where_both_end_their_last_shared_epoch() -> None:
    """KIP-279: the leader ended epoch 2 later than we did, and never had our epoch 3."""
    follower, _ = following((1, 1), (2, 2), (3, 3), (3, 4))
    fetch = follower.fetch(4)
    assert fetch is not None
    answer = Answer(fetch.id, 5, Outcome.DIVERGED, end_epoch=2, end_offset=3)
    assert follower.on_answer(1, answer) == Cut(2)


def test_it_begins_anew_where_the_leader_begins() -> None:
    follower, _ = following((1, 1))
    fetch = follower.fetch(1)
    assert fetch is not None
    answer = Answer(fetch.id, 5, Outcome.TRIMMED, start_offset=7)
    assert follower.on_answer(1, answer) == Restart(7)


def test_it_asks_again_when_the_leader_is_not_ready() -> None:
    follower, _ = following()
    fetch = follower.fetch(0)
    assert fetch is not None
    assert follower.on_answer(1, Answer(fetch.id, 5, Outcome.NOT_YET)) == Again()


def test_its_high_watermark_follows_the_leaders_up_to_its_own_end_and_never_back() -> None:
    follower, log = following((1, 1), (1, 2))
    follower.on_committed(Answer(1, 5, Outcome.RECORDS, high_watermark=9))
    assert follower.high_watermark == 2
    follower.on_committed(Answer(1, 5, Outcome.RECORDS, high_watermark=1))
    assert follower.high_watermark == 2
    log.cut(1)
    follower.on_cut()
    assert follower.high_watermark == 1

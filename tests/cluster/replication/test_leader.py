"""Proves what a leader commits, whom it lets in, and whom it turns away."""

from math import inf

import pytest
from msgspec.structs import replace

from chordmq.cluster.replication.leader import Leader, Lease, Rules, Source
from chordmq.cluster.state import PartitionState
from chordmq.codecs.peer.replica import Fetch, Outcome
from tests.sim.brokers import SimLog

STATE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=5, isr=(1, 2, 3))
TWO, THREE = Source(2, 20), Source(3, 30)


class Led:
    """A leader with four records, two of them of an earlier epoch, and none committed."""

    def __init__(self, state: PartitionState = STATE) -> None:
        self.log = SimLog()
        self.log.records = [(3, 1), (3, 2)]
        self.lease = Lease(inf)
        self.leader = Leader(self.log, self.lease, state, 100, 0.0)
        self.leader.rules = Rules(min_in_sync=2, lag_max_s=10)
        self.log.records += [(5, 3), (5, 4)]
        self.leader.on_safe(4, 0.0)
        self._ids = 0

    def fetch(
        self, source: Source, offset: int, last_epoch: int = 5, now_s: float = 1.0, epoch: int = 5
    ) -> Outcome:
        self._ids += 1
        answer = self.leader.admit(source, Fetch(self._ids, epoch, offset, last_epoch), now_s)
        return Outcome.RECORDS if answer is None else answer.outcome


@pytest.fixture
def led() -> Led:
    return Led()


def test_a_record_is_committed_when_all_in_sync_replicas_have_it(led: Led) -> None:
    led.fetch(TWO, 4)
    assert led.leader.high_watermark == 0
    led.fetch(THREE, 3)
    assert led.leader.high_watermark == 3


def test_the_leaders_own_disk_counts_like_the_others(led: Led) -> None:
    led.log.records.append((5, 5))
    led.fetch(TWO, 5)
    led.fetch(THREE, 5)
    assert led.leader.high_watermark == 4
    led.leader.on_safe(5, 1.0)
    assert led.leader.high_watermark == 5


def test_nothing_is_committed_while_too_few_are_in_sync(led: Led) -> None:
    led.leader.on_state(replace(STATE, isr=(1,)), 101, 1.0)
    led.fetch(TWO, 4)
    assert led.leader.high_watermark == 0
    assert not led.leader.has_enough


def test_whoever_a_proposal_may_have_let_in_counts_already(led: Led) -> None:
    led.leader.on_state(replace(STATE, isr=(1, 2)), 101, 0.0)
    led.fetch(TWO, 4)
    led.fetch(THREE, 4)
    assert led.leader.high_watermark == 4
    led.log.records.append((5, 5))
    led.leader.on_safe(5, 1.0)
    led.fetch(TWO, 5)
    assert led.leader.high_watermark == 4


def test_a_follower_that_has_everything_committed_is_proposed_with_its_epoch(led: Led) -> None:
    led.leader.on_state(replace(STATE, isr=(1, 2)), 101, 0.0)
    led.fetch(TWO, 4)
    assert led.leader.take_proposal() is None
    led.fetch(THREE, 4)
    proposal = led.leader.take_proposal()
    assert proposal is not None
    assert (proposal.revision, proposal.state.isr) == (101, (1, 2, 3))
    assert proposal.added == {3: 30}
    assert led.leader.take_proposal() is None


def test_a_follower_that_lacks_records_of_earlier_leaders_is_not_proposed(led: Led) -> None:
    led.leader.on_state(replace(STATE, isr=(1, 2)), 101, 0.0)
    led.fetch(THREE, 1, last_epoch=3)
    assert led.leader.take_proposal() is None


def test_a_refused_proposal_is_not_made_again_at_once(led: Led) -> None:
    led.leader.on_state(replace(STATE, isr=(1, 2)), 101, 0.0)
    led.fetch(THREE, 4)
    proposal = led.leader.take_proposal()
    assert proposal is not None
    led.leader.on_refused(proposal, 1.0)
    led.fetch(THREE, 4, now_s=1.1)
    assert led.leader.take_proposal() is None
    led.fetch(THREE, 4, now_s=2.0)
    assert led.leader.take_proposal() is not None


def test_who_is_behind_for_too_long_leaves_the_set(led: Led) -> None:
    led.fetch(TWO, 4, now_s=9.0)
    led.leader.tick(10.0)
    assert led.leader.take_proposal() is None
    led.leader.tick(10.1)
    proposal = led.leader.take_proposal()
    assert proposal is not None
    assert proposal.state.isr == (1, 2)


def test_who_keeps_up_with_a_busy_leader_stays(led: Led) -> None:
    for now in range(1, 40):
        led.fetch(TWO, led.log.end_offset - 1, now_s=float(now))
        led.fetch(THREE, led.log.end_offset - 1, now_s=float(now))
        led.log.records.append((5, 10 + now))
    led.leader.tick(40.0)
    assert led.leader.take_proposal() is None


def test_nothing_is_committed_or_proposed_once_the_lease_may_have_ended(led: Led) -> None:
    led.lease.until_s = 1.0
    led.fetch(TWO, 4, now_s=1.0)
    led.fetch(THREE, 4, now_s=1.0)
    assert led.leader.high_watermark == 0
    led.leader.tick(50.0)
    assert led.leader.take_proposal() is None
    led.lease.until_s = 60.0
    led.leader.tick(50.0)
    assert led.leader.high_watermark == 4


def test_fetches_of_another_epoch_count_for_nothing(led: Led) -> None:
    """KIP-320: the fence that random schedules do not find when it is missing."""
    assert led.fetch(TWO, 4, epoch=4) is Outcome.STALE
    assert led.fetch(TWO, 4, epoch=6) is Outcome.NOT_YET
    led.fetch(THREE, 4)
    assert led.leader.high_watermark == 0


def test_an_earlier_life_of_a_follower_counts_for_nothing(led: Led) -> None:
    assert led.fetch(Source(2, 21), 2, last_epoch=3) is Outcome.RECORDS
    assert led.fetch(TWO, 4) is Outcome.STALE
    assert led.leader.progress[2].offset == 2


def test_who_is_no_replica_gets_nothing(led: Led) -> None:
    assert led.fetch(Source(9, 1), 0, last_epoch=-1) is Outcome.NOT_YET


@pytest.mark.parametrize(
    ("offset", "last_epoch", "end"),
    [(5, 5, (5, 4)), (3, 4, (3, 2)), (3, 3, (3, 2)), (2, 1, (-1, 0))],
)
def test_a_log_that_parts_from_the_leaders_is_told_where(
    led: Led, offset: int, last_epoch: int, end: tuple[int, int]
) -> None:
    answer = led.leader.admit(TWO, Fetch(1, 5, offset, last_epoch), 1.0)
    assert answer is not None
    assert answer.outcome is Outcome.DIVERGED
    assert (answer.end_epoch, answer.end_offset) == end


def test_what_earlier_leaders_committed_is_known_once_the_epochs_start_is_committed() -> None:
    led = Led()
    assert not led.leader.is_caught_up
    led.fetch(TWO, 2, last_epoch=3)
    led.fetch(THREE, 4)
    assert led.leader.is_caught_up

"""Bugs planted in the replication machines; the simulation has to find each of them."""

from collections.abc import Iterator

from chordmq.cluster.replication.follower import Follower
from chordmq.cluster.replication.leader import Leader
from chordmq.cluster.replication.replica_log import ReplicaLog
from chordmq.codecs.peer.replica import Answer, Fetch
from tests.sim.brokers import Kinds, SimLog


class CutsToHighWatermark(Follower):
    """Cuts its log to the high watermark when a leader begins, as Kafka did before KIP-101."""

    def __init__(
        self, leader: int, epoch: int, log: ReplicaLog, high_watermark: int, ids: Iterator[int]
    ) -> None:
        super().__init__(leader, epoch, log, high_watermark, ids)
        assert isinstance(log, SimLog)
        log.cut(high_watermark)


class TakesAnyAnswer(Follower):
    """Takes an answer to any of its fetches for that to the last one."""

    def _is_expected(self, source: int, answer: Answer) -> bool:
        return source == self.leader and answer.leader_epoch == self.epoch


class CountsProposedSet(Leader):
    """Commits by the proposed in-sync set alone, before the store has it."""

    def _maximal(self) -> set[int]:
        return set(self.state.isr if self._pending is None else self._pending.state.isr)


class CommitsAlone(Leader):
    """Commits what it has itself, whatever the in-sync set has."""

    def _maximal(self) -> set[int]:
        return {self.me}


class JoinsTooEarly(Leader):
    """Lets a follower join that has not all of the earlier leaders' records."""

    def _may_join(self, offset: int) -> bool:
        return offset >= self.high_watermark


class JoinsAnybody(Leader):
    """Lets a follower join that has fetched at all."""

    def _may_join(self, offset: int) -> bool:
        return True


class IgnoresMinimum(Leader):
    """Commits with however few are in sync."""

    @property
    def has_enough(self) -> bool:
        return True


class SeesNoParting(Leader):
    """Gives records to a follower whose log is not a part of its own."""

    def _parting(self, fetch: Fetch) -> Answer | None:
        return None


MUTANTS: dict[str, Kinds] = {
    "cuts to the high watermark": Kinds(follower=CutsToHighWatermark),
    "takes any answer": Kinds(follower=TakesAnyAnswer),
    "counts the proposed set": Kinds(leader=CountsProposedSet),
    "commits alone": Kinds(leader=CommitsAlone),
    "joins too early": Kinds(leader=JoinsTooEarly),
    "joins anybody": Kinds(leader=JoinsAnybody),
    "ignores the minimum": Kinds(leader=IgnoresMinimum),
    "sees no parting of logs": Kinds(leader=SeesNoParting),
    "takes written for flushed": Kinds(flushes_first=False),
    "elects anybody": Kinds(is_unclean_allowed=True),
    "takes no answer for a refusal": Kinds(settles_doubt=False),
    "acknowledges without a lease": Kinds(heeds_lease=False),
    "lets an earlier life join": Kinds(checks_broker_epochs=False, waits_for_disk=False),
    "keeps no eligible replicas": Kinds(keeps_eligible=False, waits_for_disk=False),
    "trusts an unclean restart": Kinds(drops_unclean=False, waits_for_disk=False),
}

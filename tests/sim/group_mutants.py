"""Bugs planted in the coordinator of groups; the simulation has to find each of them."""

from chordmq.broker.groups.classic_groups import Group, Outbox
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.membership import Identity
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.write_queue import Write
from chordmq.cluster.replication.leader import Leader
from tests.sim.brokers import SimLog
from tests.sim.coordinator import Coordinator, Entry, Heard


class ServesTooEarly(Coordinator):
    """Tells what it has read before that is committed."""

    def _is_committed(self, read_end: int) -> bool:
        return True


class ReadsTooLittle(Coordinator):
    """Reads what it knows to be committed, though more may be."""

    def _load(self, log: SimLog) -> None:
        known = SimLog()
        known.records = log.records[: self._process.high_watermark]
        super()._load(known)


class NeverForgets(Coordinator):
    """Goes on with what it has read in an earlier epoch."""

    def _forget(self) -> None:
        pass

    def _load(self, log: SimLog) -> None:
        if self.read is None:
            super()._load(log)


class WritesLate(Coordinator):
    """Writes in one leader epoch what was decided in another."""

    def _may_write(self, write: Write[Entry], leader: Leader) -> bool:
        return True


class AnswersCommitsTooEarly(Coordinator):
    """Acknowledges a commit that is on its way to the log."""

    def commit(self, group_id: str, identity: Identity, commit: Commit, heard: Heard) -> None:
        super().commit(group_id, identity, commit, lambda _: None)
        heard(None)


class AppliesCommitsTooEarly(Coordinator):
    """Tells others of a commit that is on its way to the log."""

    def commit(self, group_id: str, identity: Identity, commit: Commit, heard: Heard) -> None:
        super().commit(group_id, identity, commit, heard)
        for record in self.offsets.commits(group_id, [commit], self._now_ms())[0]:
            self.offsets.replay(record)


class AnswersSyncsTooEarly(Coordinator):
    """Hands assignments out that are on their way to the log."""

    def _log_snapshots(self, group: Group, outbox: Outbox) -> None:
        super()._log_snapshots(group, outbox)
        for snapshot in outbox.snapshots:
            group.replay(snapshot, self._now_ms())
        self._send(group.take_outbox().answers)


class TakesAnybodysCommits(Coordinator):
    """Does not look in which generation a member commits."""

    def _check_commit(self, group_id: str, identity: Identity) -> None:
        pass


class AnswersBeatsTooEarly(Coordinator):
    """Tells consumers what is on its way to the log."""

    def _log_consumers(self, group: ConsumerGroup, heard: Heard | None) -> None:
        super()._log_consumers(group, None)
        if heard is not None:
            heard(None)


class KeepsWhatWasRefused(Coordinator):
    """Goes on with what the log has refused."""

    def _lose(self, group: ConsumerGroup) -> None:
        pass


MUTANTS: tuple[type[Coordinator], ...] = (
    ServesTooEarly,
    ReadsTooLittle,
    NeverForgets,
    WritesLate,
    AnswersCommitsTooEarly,
    AppliesCommitsTooEarly,
    AnswersSyncsTooEarly,
    TakesAnybodysCommits,
    AnswersBeatsTooEarly,
    KeepsWhatWasRefused,
)

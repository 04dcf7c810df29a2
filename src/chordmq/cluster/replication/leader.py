"""A partition as its leader sees it: how far the followers are, what is committed, who is in sync.

Pure: the caller brings fetches, flushes, states of the store and the time, and takes proposals.
"""

from collections.abc import Mapping
from math import inf

from chordmq.cluster.replication.in_sync import needed, with_isr
from chordmq.cluster.replication.replica_log import ReplicaLog
from chordmq.cluster.state import PartitionState
from chordmq.codecs.peer.replica import NO_EPOCH, Answer, Fetch, Outcome
from chordmq.dataclass import dataclass

RETRY_S = 0.5
"""After a refused proposal; what the store knows by then is different."""


@dataclass(slots=True)
class Lease:
    """How long this broker may be sure that it lives in the eyes of the others; one for all."""

    until_s: float = inf


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say about replicas."""

    min_in_sync: int = 1
    lag_max_s: float = 30.0
    """How long a follower may be behind and stay in sync."""


@dataclass(frozen=True, slots=True)
class Source:
    """The broker that fetches, in which of its lives."""

    broker: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of the in-sync set: to be written if nothing has changed since `revision`."""

    revision: int
    state: PartitionState
    added: Mapping[int, int]
    """Broker epochs of those who join: each must live, in the same life in which it fetched."""


@dataclass(slots=True)
class Progress:
    """How far one follower is, since this leader's epoch began."""

    broker_epoch: int
    offset: int
    caught_up_s: float
    """When it last had everything that there was."""
    fetched_s: float
    end_when_fetched: int


class Leader:
    """The leader of one partition, for one leader epoch.

    A record is committed when all of the maximal in-sync set have it: those who are in the set and
    those whom a proposal under way may have brought into it. Once the lease may have ended another
    may lead, so nothing is committed any more; the epoch alone makes that safe, the lease makes it
    known.
    """

    def __init__(
        self, log: ReplicaLog, lease: Lease, state: PartitionState, revision: int, now_s: float
    ) -> None:
        self.me = state.leader
        self.epoch = state.leader_epoch
        self.epoch_start = log.end_offset
        self.high_watermark = log.start_offset
        """Where what is known to be committed ends; never goes back."""
        self.state = state
        self.revision = revision
        self.rules = Rules()
        self.progress: dict[int, Progress] = {}
        self._log = log
        self._lease = lease
        self._safe_offset = log.start_offset
        self._pending: Proposal | None = None
        self._outbox: Proposal | None = None
        self._retry_s = self._began_s = now_s

    @property
    def has_enough(self) -> bool:
        """Return whether the in-sync set is large enough to commit."""
        return len(self.state.isr) >= needed(self.rules.min_in_sync, len(self.state.replicas))

    @property
    def is_caught_up(self) -> bool:
        """Return whether all that earlier leaders may have committed is known to be (rule 6)."""
        return self.high_watermark >= self.epoch_start

    def is_fenced(self, now_s: float) -> bool:
        """Return whether another may lead by now, because this broker's lease may have ended."""
        return now_s >= self._lease.until_s

    def admit(self, source: Source, fetch: Fetch, now_s: float) -> Answer | None:
        """Take note of how far a follower is; return None if it may have records, else why not."""
        if fetch.leader_epoch != self.epoch:
            older = fetch.leader_epoch < self.epoch
            return _refusal(fetch, Outcome.STALE if older else Outcome.NOT_YET)
        known = self.progress.get(source.broker)
        if known is not None and source.broker_epoch < known.broker_epoch:
            return _refusal(fetch, Outcome.STALE)
        if source.broker not in self.state.replicas:
            return _refusal(fetch, Outcome.NOT_YET)
        if fetch.offset < self._log.start_offset:
            return self._answer(fetch, Outcome.TRIMMED)
        parting = self._parting(fetch)
        if parting is not None:
            return parting
        self._note(source, fetch, known, now_s)
        self._advance(now_s)
        self._consider_joining(source, now_s)
        return None

    def answer(self, fetch: Fetch, records: list[memoryview]) -> Answer:
        """Return the answer to an admitted fetch."""
        return Answer(
            fetch.id,
            self.epoch,
            Outcome.RECORDS,
            self.high_watermark,
            self._log.start_offset,
            records=records,
        )

    def on_safe(self, offset: int, now_s: float) -> None:
        """Take note that this broker's log is as safe as the topic demands, up to the offset."""
        self._safe_offset = offset
        self._advance(now_s)

    def on_state(self, state: PartitionState, revision: int, now_s: float) -> None:
        """Take in what the store says of the same leader epoch; it ends any proposal."""
        assert state.leader_epoch == self.epoch
        if revision <= self.revision:
            return
        self.state, self.revision = state, revision
        self._pending = self._outbox = None
        for broker in [b for b in self.progress if b not in state.replicas]:
            del self.progress[broker]
        self._advance(now_s)

    def on_refused(self, proposal: Proposal, now_s: float) -> None:
        """Take note that the proposal is not in the store and never will be."""
        if proposal is self._pending:
            self._pending = self._outbox = None
            self._retry_s = now_s + RETRY_S
            self._advance(now_s)

    def tick(self, now_s: float) -> None:
        """Commit what a lapsed lease held up; go on without those who are behind for too long."""
        self._advance(now_s)
        if not self._may_propose(now_s):
            return
        late = {b for b in self.state.isr if b != self.me and self._is_late(b, now_s)}
        if late:
            self._propose(set(self.state.isr) - late, {})

    def take_proposal(self) -> Proposal | None:
        """Return a change that is to be written to the store, once."""
        proposal, self._outbox = self._outbox, None
        return proposal

    def _parting(self, fetch: Fetch) -> Answer | None:
        """Return where the follower's log parts from this one, or None if it does not."""
        if fetch.last_epoch == NO_EPOCH:  # no record that could be compared
            is_beyond = fetch.offset > self._log.end_offset
            return self._answer(fetch, Outcome.TRIMMED) if is_beyond else None
        epoch, end = self._log.epoch_end(fetch.last_epoch)
        if epoch == fetch.last_epoch and fetch.offset <= end:
            return None
        return self._answer(fetch, Outcome.DIVERGED, epoch, max(end, 0))

    def _note(self, source: Source, fetch: Fetch, known: Progress | None, now_s: float) -> None:
        end = self._log.end_offset
        if known is None or known.broker_epoch != source.broker_epoch:
            caught_up_s = self._began_s if known is None else known.caught_up_s
            known = Progress(source.broker_epoch, 0, caught_up_s, now_s, end)
            self.progress[source.broker] = known
        if fetch.offset >= end:
            known.caught_up_s = now_s
        elif fetch.offset >= known.end_when_fetched:
            known.caught_up_s = max(known.caught_up_s, known.fetched_s)
        known.offset, known.fetched_s, known.end_when_fetched = fetch.offset, now_s, end

    def _maximal(self) -> set[int]:
        """Return all who may be in the in-sync set at this moment, as far as anybody can know."""
        members = set(self.state.isr)
        if self._pending is not None:
            members.update(self._pending.state.isr)
        return members

    def _advance(self, now_s: float) -> None:
        if self.is_fenced(now_s) or not self.has_enough:
            return
        committed = self._safe_offset
        for broker in self._maximal():
            if broker != self.me:
                progress = self.progress.get(broker)
                committed = min(committed, 0 if progress is None else progress.offset)
        self.high_watermark = max(self.high_watermark, committed)

    def _consider_joining(self, source: Source, now_s: float) -> None:
        if source.broker in self.state.isr or not self._may_propose(now_s):
            return
        if self._may_join(self.progress[source.broker].offset):
            members = {*self.state.isr, source.broker}
            self._propose(members, {source.broker: source.broker_epoch})

    def _may_join(self, offset: int) -> bool:
        """Return whether a follower has all that this leader, or one before it, has committed."""
        return offset >= max(self.high_watermark, self.epoch_start)

    def _may_propose(self, now_s: float) -> bool:
        return self._pending is None and now_s >= self._retry_s and not self.is_fenced(now_s)

    def _is_late(self, broker: int, now_s: float) -> bool:
        progress = self.progress.get(broker)
        if progress is not None and progress.offset >= self._log.end_offset:
            return now_s - progress.fetched_s > self.rules.lag_max_s
        caught_up_s = self._began_s if progress is None else progress.caught_up_s
        return now_s - caught_up_s > self.rules.lag_max_s

    def _propose(self, isr: set[int], added: Mapping[int, int]) -> None:
        state = with_isr(self.state, isr, self.rules.min_in_sync)
        self._pending = self._outbox = Proposal(self.revision, state, added)

    def _answer(
        self, fetch: Fetch, outcome: Outcome, end_epoch: int = NO_EPOCH, end_offset: int = 0
    ) -> Answer:
        return Answer(
            fetch.id,
            self.epoch,
            outcome,
            self.high_watermark,
            self._log.start_offset,
            end_epoch,
            end_offset,
        )


def _refusal(fetch: Fetch, outcome: Outcome) -> Answer:
    """Return an answer that says nothing of the log, so that it may carry the follower's epoch."""
    return Answer(fetch.id, fetch.leader_epoch, outcome)

"""One partition's copy on this node: leads or follows, and keeps in step with the others."""

from typing import Protocol

from msgspec.structs import replace

from chordmq.broker.read_ahead import ReadAhead
from chordmq.cluster.replication.follower import Append, Cut, Follower, Restart, Step
from chordmq.cluster.replication.leader import Leader, Lease, Proposal, Rules, Source
from chordmq.cluster.state import NO_LEADER, PartitionState
from chordmq.codecs.peer.replica import Answer, Fetch, Outcome, Place
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, NotEnoughReplicas, NotLeader, OffsetNotAvailable
from chordmq.logs import get_logger
from chordmq.storage.log import Log

logger = get_logger(__name__)

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MAX_S = 0.5
"""How long a fetch waits for records; then the follower hears that there are none."""
OVERDUE_S = 4 * FETCH_WAIT_MAX_S
"""After this a fetch counts as lost."""
PAUSE_S = 2.0
RESIGN_INTERVAL_S = 5.0


class Copy(Protocol):
    """The partition, as its replica sees it."""

    topic: str
    index: int
    log: Log
    read_ahead: ReadAhead
    leader_epoch: int
    high_watermark: int

    @property
    def safe_offset(self) -> int:
        """Return how far the log is as safe as the topic demands."""
        ...

    def commit(self, high_watermark: int) -> None:
        """Take note of how far the partition is committed, which may be what is known."""
        ...

    def take(self, records: memoryview) -> None:
        """Write batches of the leader as they are."""
        ...

    def cut(self, offset: int) -> None:
        """Remove what lies at or after the offset."""
        ...

    def restart(self, offset: int) -> None:
        """Drop the log and go on at the offset."""
        ...

    def begin_epoch(self) -> None:
        """Let go of all who waited for something of the epoch before."""
        ...


class Node(Protocol):
    """The node's other end of replication: sends, writes proposals, knows the time."""

    broker: int
    lease: Lease
    rules_lag_max_s: float

    def now_s(self) -> float:
        """Return seconds that never go back."""
        ...

    def send_fetch(self, leader: int, place: Place, fetch: Fetch) -> bool:
        """Send a fetch with the others of this turn; False if the leader cannot be reached."""
        ...

    def send_answer(self, follower: int, place: Place, answer: Answer) -> None:
        """Send an answer with the others of this turn."""
        ...

    def serve_soon(self, replica: "Replica") -> None:
        """Call `serve` at the end of this turn of the loop."""
        ...

    def tell_soon(self, replica: "Replica") -> None:
        """Call `tell_watermark` in a moment."""
        ...

    def propose(self, replica: "Replica", proposal: Proposal) -> None:
        """Write a change of the in-sync set to the store, and bring what became of it."""
        ...

    def hand_over(self, replica: "Replica", state: PartitionState, broker_epoch: int) -> None:
        """Have the state's leader lead from the next epoch on, if it lives in that epoch of its."""
        ...

    def turned(self) -> None:
        """Tell those who need to know that a replica leads now, or does not."""
        ...

    def fetch_ids(self) -> "FetchIds":
        """Return where the ids of fetches come from."""
        ...


class FetchIds:
    """Numbers that no fetch of this broker has had, in this life or an earlier one."""

    def __init__(self, broker_epoch: int) -> None:
        self._next = broker_epoch << 32

    def __iter__(self) -> "FetchIds":
        return self

    def __next__(self) -> int:
        self._next += 1
        return self._next


@dataclass(slots=True)
class Waiting:
    """A follower's fetch for which there is nothing yet."""

    source: Source
    fetch: Fetch
    since_s: float


class Replica:
    """Keeps one partition's log in step with the others'; lives on the event loop."""

    def __init__(self, node: Node, partition: Copy, min_in_sync: int = 1) -> None:
        self.partition = partition
        self.place = Place(b"", partition.index)
        self.state: PartitionState | None = None
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.min_in_sync = min_in_sync
        self.way = object()
        """Another one whenever another leads, or the link to the leader has ended: what was sent to
        it before may be lost, so that what is sent after it could get there first."""
        self._node = node
        self._revision = 0
        self._waiting: dict[int, Waiting] = {}
        self._told: dict[int, int] = {}
        """The high watermark that each follower has been told."""
        self._fetched_s = 0.0
        self._paused_until_s = 0.0
        """When to fetch again after the log could not be written."""
        self._resigned_s = -RESIGN_INTERVAL_S
        self._is_serving = False

    @property
    def revision(self) -> int:
        """Return the revision of the state that is in force here."""
        return self._revision

    @property
    def leader_hint(self) -> tuple[int, int]:
        """Return who leads as far as is known here, and in which epoch."""
        if self.state is None:
            return NO_LEADER, -1
        return self.state.leader, self.state.leader_epoch

    @property
    def lag(self) -> int:
        """Return how many records the slowest follower lacks, if this node leads."""
        if self.leader is None:
            return 0
        end = self.partition.log.end_offset
        return max((end - one.offset for one in self.leader.progress.values()), default=0)

    # What the partition asks and tells.

    def check_leading(self, *, is_quorum_needed: bool = False) -> None:
        """Raise NotLeader, or NotEnoughReplicas, unless a producer may write here now."""
        leader = self.leader
        if leader is None:
            node = self.leader_hint[0]
            raise NotLeader(f"node {node} leads the partition", node)
        if leader.is_fenced(self._node.now_s()):
            raise NotLeader("the node's lease may have ended, so that another may lead")
        if is_quorum_needed and not leader.has_enough:
            raise NotEnoughReplicas(
                f"{len(leader.state.isr)} replicas are in sync, {self.min_in_sync} are needed"
            )

    def check_current(self) -> None:
        """Raise NotLeader, or OffsetNotAvailable until it is known what is committed."""
        self.check_leading()
        if self.leader is not None and not self.leader.is_caught_up:
            raise OffsetNotAvailable("the new leader does not know yet what is committed")

    def resign(self) -> None:
        """Have an in-sync follower lead instead, since this node cannot write its log."""
        leader, now_s = self.leader, self._node.now_s()
        if leader is None or now_s < self._resigned_s + RESIGN_INTERVAL_S:
            return
        able = [b for b in leader.state.isr if b != leader.me and b in leader.progress]
        if able:
            self._resigned_s = now_s
            best = max(able, key=lambda broker: leader.progress[broker].offset)
            epoch = leader.progress[best].broker_epoch
            self._node.hand_over(self, replace(leader.state, leader=best), epoch)

    def set_min_in_sync(self, count: int) -> None:
        """Change how many replicas must have a record before it is committed."""
        self.min_in_sync = count
        if self.leader is not None:
            self.leader.rules = self._rules()

    def appended(self) -> None:
        """Take note that the log has grown."""
        if self._waiting and not self._is_serving:
            self._is_serving = True
            self._node.serve_soon(self)

    def progressed(self, safe_offset: int) -> int:
        """Take note of how far the log is safe; return the high watermark."""
        if self.leader is not None:
            self.leader.on_safe(safe_offset, self._node.now_s())
            self._note_watermark(self.leader)
            return self.leader.high_watermark
        self.fetch()
        return self.partition.high_watermark

    def recall(self, high_watermark: int) -> None:
        """Take note that the partition was committed so far when the node was last here."""
        self.partition.commit(min(high_watermark, self.partition.log.end_offset))

    # What the store says.

    def on_state(self, place: Place, state: PartitionState, revision: int) -> None:
        """Take in a newer state: begin an epoch, or adopt another in-sync set."""
        if revision <= self._revision:
            return
        before, self.state, self._revision, self.place = self.state, state, revision, place
        leader = self.leader
        if before is None or before.leader_epoch != state.leader_epoch:
            self._begin(state, revision)
        elif leader is not None:
            leader.on_state(state, revision, self._node.now_s())
            self._after(leader)

    def _begin(self, state: PartitionState, revision: int) -> None:
        self.way = object()
        self.leader = self.follower = None
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            self._refuse(one.source.broker, one.fetch)
        self._told.clear()
        partition = self.partition
        partition.leader_epoch = state.leader_epoch
        partition.begin_epoch()
        if state.leader == self._node.broker:
            self._lead(state, revision)
        elif state.leader != NO_LEADER and self._node.broker in state.replicas:
            self.follower = Follower(
                state.leader,
                state.leader_epoch,
                partition.log,
                partition.high_watermark,
                self._node.fetch_ids(),
            )
            self.fetch()
        self._node.turned()

    def _lead(self, state: PartitionState, revision: int) -> None:
        partition, now_s = self.partition, self._node.now_s()
        leader = Leader(partition.log, self._node.lease, state, revision, now_s)
        leader.rules = self._rules()
        leader.high_watermark = max(partition.high_watermark, partition.log.start_offset)
        self.leader = leader
        leader.on_safe(partition.safe_offset, now_s)
        self._after(leader)

    def _rules(self) -> Rules:
        return Rules(self.min_in_sync, self._node.rules_lag_max_s)

    # As leader.

    def on_fetch(self, source: Source, fetch: Fetch) -> None:
        """Answer a follower, now or when there is something to say."""
        leader, now_s = self.leader, self._node.now_s()
        if leader is None:
            self._refuse(source.broker, fetch)
            return
        refusal = leader.admit(source, fetch, now_s)
        if refusal is not None:
            self._node.send_answer(source.broker, self.place, refusal)
            return
        self._waiting[source.broker] = Waiting(source, fetch, now_s)
        self._after(leader)
        if self.partition.log.end_offset > fetch.offset:
            self.appended()
        elif leader.high_watermark > self._told.get(source.broker, 0):
            self._node.tell_soon(self)

    def serve(self) -> None:
        """Send records to the followers for whom there are some."""
        self._is_serving = False
        leader, log = self.leader, self.partition.log
        if leader is None:
            return
        for broker, one in list(self._waiting.items()):
            if log.start_offset <= one.fetch.offset < log.end_offset:
                try:
                    offset = one.fetch.offset
                    read_ahead = self.partition.read_ahead
                    if read_ahead.awaits(log, offset, FETCH_BYTES_MAX, self.appended):
                        continue  # it is served when memory has what it wants
                    records = log.read(offset, FETCH_BYTES_MAX)
                except ChordMQError as error:  # the follower asks again, and may be lucky
                    logger.error("replica cannot be served", log=log.name, reason=str(error))
                    continue
                self._answer(leader, broker, one, records)

    def tell_watermark(self) -> None:
        """Tell the waiting followers how far the partition is committed, if they do not know."""
        leader = self.leader
        if leader is not None:
            for broker, one in list(self._waiting.items()):
                if self._told.get(broker, 0) < leader.high_watermark:
                    self._answer(leader, broker, one, [])

    def on_refused(self, proposal: Proposal) -> None:
        """Take note that a proposal was not written and never will be."""
        if self.leader is not None:
            self.leader.on_refused(proposal, self._node.now_s())
            self._after(self.leader)

    def tick(self) -> None:
        """Look what has taken too long."""
        leader, now_s = self.leader, self._node.now_s()
        if leader is not None:
            leader.tick(now_s)
            self._after(leader)
            for broker, one in list(self._waiting.items()):
                if now_s - one.since_s >= FETCH_WAIT_MAX_S:
                    self._answer(leader, broker, one, [])
        elif self.follower is not None:
            if now_s - self._fetched_s >= OVERDUE_S:
                self.follower.on_lost()
            self.fetch()

    def forget(self, broker: int) -> None:
        """Take note that the link to a broker is gone, and all that was under way on it."""
        self._waiting.pop(broker, None)
        if broker == self.leader_hint[0]:
            self.way = object()
        if self.follower is not None and self.follower.leader == broker:
            self.follower.on_lost()

    def _after(self, leader: Leader) -> None:
        proposal = leader.take_proposal()
        if proposal is not None:
            self._node.propose(self, proposal)
        self.partition.commit(leader.high_watermark)
        self._note_watermark(leader)

    def _note_watermark(self, leader: Leader) -> None:
        if self._waiting and leader.high_watermark > min(
            self._told.get(broker, 0) for broker in self._waiting
        ):
            self._node.tell_soon(self)

    def _answer(self, leader: Leader, broker: int, one: Waiting, records: list[memoryview]) -> None:
        del self._waiting[broker]
        self._told[broker] = leader.high_watermark
        self._node.send_answer(broker, self.place, leader.answer(one.fetch, records))

    def _refuse(self, broker: int, fetch: Fetch) -> None:
        answer = Answer(fetch.id, fetch.leader_epoch, Outcome.NOT_YET)
        self._node.send_answer(broker, self.place, answer)

    # As follower.

    def fetch(self) -> None:
        """Ask the leader for more, once all that came is safe."""
        follower, now_s = self.follower, self._node.now_s()
        if follower is None or now_s < self._paused_until_s:
            return
        fetch = follower.fetch(self.partition.safe_offset)
        if fetch is None:
            return
        self._fetched_s = now_s
        if not self._node.send_fetch(follower.leader, self.place, fetch):
            follower.on_lost()

    def on_answer(self, source: int, answer: Answer) -> None:
        """Do to the log what the leader's answer means."""
        follower = self.follower
        if follower is None:
            return
        step = follower.on_answer(source, answer)
        if step is None:
            return
        try:
            self._do(follower, step, answer)
        except ChordMQError as error:
            self._paused_until_s = self._node.now_s() + PAUSE_S
            logger.error("replica falls behind", log=self.partition.log.name, reason=str(error))

    def _do(self, follower: Follower, step: Step, answer: Answer) -> None:
        partition = self.partition
        if isinstance(step, Append):
            for records in step.records:
                partition.take(records)
            follower.on_committed(answer)
            if answer.start_offset > partition.log.start_offset:
                partition.log.delete_before(min(answer.start_offset, partition.log.end_offset))
            partition.commit(follower.high_watermark)
        elif isinstance(step, Cut):
            partition.cut(step.offset)
            follower.on_cut()
        elif isinstance(step, Restart):
            partition.restart(step.offset)
            follower.high_watermark = partition.high_watermark
        else:
            return  # the next tick asks again
        self.fetch()

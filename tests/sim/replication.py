"""One partition on three brokers under a seeded schedule of everything that can go wrong.

The leader and follower machines are those of the broker, and so are the rules by which leaders are
elected. Around them: a store with compare-and-set and watches that lag, leases on clocks that
drift, disks that lose what was not flushed, a network that holds, drops and reorders, processes
that crash, stop and go on. After each step nothing that was acknowledged may be missing where it
must be.
"""

from collections.abc import Callable
from itertools import count
from math import inf
from random import Random
from typing import Any

from msgspec.structs import replace

from chordmq.cluster.elections import Rules as ElectionRules
from chordmq.cluster.elections import elected, elected_uncleanly, fenced, led_by_preferred
from chordmq.cluster.replication.follower import Append, Cut, Restart
from chordmq.cluster.replication.leader import Proposal, Rules, Source
from chordmq.cluster.state import NO_LEADER, PartitionState
from chordmq.codecs.peer.replica import Answer, Fetch
from tests.sim.brokers import Kinds, Known, Process, SimLog, Violation

BROKERS = range(3)
COPIES = 3
MIN_IN_SYNC = 2
LAG_MAX_S = 8.0
LEASE_S = 6.0
LEASE_SURE_S = 5.4
STEPS = 250
HEALING_ROUNDS = 400
RECORDS_PER_ANSWER = 2


class World:
    """The brokers, the store, the network and whoever watches that the rules are kept."""

    def __init__(self, seed: int, kinds: Kinds, brokers: range = BROKERS) -> None:
        self.random = Random(seed)
        self.kinds = kinds
        self.brokers = brokers
        self.now_s = 0.0
        self.rules = ElectionRules(
            min_in_sync=MIN_IN_SYNC,
            is_durable=kinds.waits_for_disk,
        )
        replicas = tuple(self.random.sample(brokers, COPIES))
        isr = tuple(sorted(replicas))
        self.state = PartitionState(replicas=replicas, leader=replicas[0], isr=isr)
        self.revision = 10
        self.epochs = {b: b + 1 for b in brokers}
        self.leases = dict.fromkeys(brokers, LEASE_S)
        self.fenced: set[int] = set()
        self.disks = {b: SimLog() for b in brokers}
        self.up: dict[int, Process] = {}
        self.unclean: set[int] = set()
        self.cut_off: set[int] = set()
        """Who does not reach the store."""
        self.messages: list[Callable[[], None]] = []
        self.held: list[Callable[[], None]] = []
        self.acked: dict[int, int] = {}
        self.seen: list[tuple[int, Any]] = []
        """What consumers may have read."""
        self.leaders: dict[int, int] = {}
        self.values = count(1)
        # Each schedule has its own rates, so that rare orders come up (swarm).
        self.hold_rate = self.random.choice((0.0, 0.0, 0.1, 0.3))
        self.step_s = self.random.choice((0.03, 0.1, 0.3))
        self.fault_rate = self.random.choice((0.005, 0.02, 0.05))
        self.crash_rate = self.random.choice((0.05, 0.2, 0.5))
        self.rates = [self.random.choice((0.95, 1.0, 1.05)) for _ in brokers]
        for broker in brokers:
            self.start(broker)

    # The store and its controller.

    def put(self, state: PartitionState) -> None:
        self.state, self.revision = state, self.revision + 1
        self.publish()

    def publish(self) -> None:
        """Let everybody who watches the store hear of it, in time."""
        known = self.known()
        for process in self.up.values():
            process.watched.append(known)

    def known(self) -> Known:
        return Known(self.state, self.revision)

    def change(self, state: PartitionState) -> None:
        """Write what the controller has decided, unless nothing has changed."""
        if not self.kinds.keeps_eligible:
            # As Kafka did before KIP-966: nobody is eligible, and the last one stays in sync.
            state = replace(state, isr=state.isr or self.state.isr, elr=(), last_known_elr=())
        if state != self.state:
            self.put(state)

    def elect(self) -> None:
        live = [broker for broker in self.brokers if broker not in self.fenced]
        if self.kinds.is_unclean_allowed and self.state.leader == NO_LEADER:
            self.random.shuffle(live)
            forgotten = replace(self.state, isr=(), elr=(), last_known_elr=())
            self.change(elected_uncleanly(forgotten, live[:1], self.rules))
        else:
            self.change(elected(self.state, live, self.rules))

    def prefer(self) -> None:
        """Let the preferred replica lead, as the balancing of leaders does."""
        self.change(led_by_preferred(self.state, set(self.brokers) - self.fenced, self.rules))

    def fence(self, broker: int) -> None:
        if broker not in self.fenced:
            self.fenced.add(broker)
            self.change(fenced(self.state, broker, self.rules, lost=False))
            self.elect()

    def unfence(self, broker: int) -> None:
        if broker in self.fenced and broker in self.up and self.leases[broker] > self.now_s:
            self.fenced.discard(broker)
            self.elect()

    def decide(self, process: Process, proposal: Proposal) -> None:
        """Carry out a compare-and-set, and tell the leader, unless the answer gets lost."""
        broker = process.broker
        holds = proposal.revision == self.revision and self.epochs[broker] == process.broker_epoch
        if self.kinds.checks_broker_epochs:
            holds = holds and all(
                self.epochs[b] == epoch and b not in self.fenced
                for b, epoch in proposal.added.items()
            )
        if holds:
            state = proposal.state
            if not self.kinds.keeps_eligible:
                state = replace(state, elr=(), last_known_elr=())
            self.put(state)
        elif self.random.random() < 0.7 and self.up.get(broker) is process:
            self.send(lambda: self.refused(process, proposal))

    def refused(self, process: Process, proposal: Proposal) -> None:
        if self.up.get(process.broker) is process and proposal in process.proposals:
            process.proposals.remove(proposal)
            if process.leader is not None:
                process.leader.on_refused(proposal, self.clock(process))
                self.after(process)

    def settle(self, process: Process) -> None:
        """End the doubt about a proposal: write the state once more, then nothing older applies."""
        if process.proposals and process.broker not in self.cut_off:
            if not self.kinds.settles_doubt:
                self.refused(process, process.proposals[0])
                return
            if process.proposals[0].revision == self.revision:
                self.put(self.state)
            process.proposals.clear()
            self.learn(process, self.state, self.revision)

    # Lives of a broker.

    def clock(self, process: Process) -> float:
        return self.now_s * process.clock_rate

    def start(self, broker: int) -> None:
        process = Process(broker, self.epochs[broker], self.disks[broker], self.rates[broker])
        self.up[broker] = process
        process.watched.append(self.known())
        self.renew(process)

    def register(self, broker: int) -> None:
        self.fence(broker)
        self.epochs[broker] = max(self.epochs.values()) + 1
        self.start(broker)
        lost = broker in self.unclean and self.kinds.drops_unclean
        self.change(fenced(self.state, broker, self.rules, lost=lost))
        self.unclean.discard(broker)

    def renew(self, process: Process) -> None:
        if process.broker not in self.cut_off and self.epochs[process.broker] == (
            process.broker_epoch
        ):
            self.leases[process.broker] = self.now_s + LEASE_S
            process.lease.until_s = self.clock(process) + LEASE_SURE_S
            if not self.kinds.heeds_lease:
                process.lease.until_s = inf

    def crash(self, broker: int) -> None:
        process = self.up.pop(broker)
        log = process.log
        log.flushing = None
        if self.kinds.loses_power and self.random.random() < 0.7:
            kept = self.random.randint(log.durable, log.end_offset)
            log.cut(kept)
            if not self.kinds.waits_for_disk:
                self.unclean.add(broker)

    def safe(self, process: Process) -> int:
        if self.kinds.waits_for_disk and self.kinds.flushes_first:
            return process.log.durable
        return process.log.end_offset

    def flush(self, process: Process) -> None:
        """Begin a flush, or end the one under way."""
        log = process.log
        if log.flushing is None:
            log.flushing = log.end_offset
        else:
            log.durable, log.flushing = max(log.durable, log.flushing), None
            self.progressed(process)
        self.fetch(process)

    def progressed(self, process: Process) -> None:
        if process.leader is not None:
            process.leader.on_safe(self.safe(process), self.clock(process))
            self.after(process)

    def learn(self, process: Process, state: PartitionState, revision: int) -> None:
        """Tell a broker what the store says, be it a watch or a read."""
        if revision <= process.revision:
            return
        process.revision = revision
        if process.broker not in state.replicas:
            self.discard(process)
        elif state.leader_epoch > process.epoch:
            self.turn(process, state, revision)
        elif process.leader is not None:
            process.proposals.clear()
            process.leader.on_state(state, revision, self.clock(process))
        self.after(process)

    def discard(self, process: Process) -> None:
        """Drop a copy that others keep now, unless the store says otherwise by now."""
        process.leader = process.follower = None
        process.waiting.clear()
        process.proposals.clear()
        process.epoch = -1
        if process.broker not in self.state.replicas:
            process.log.cut(0)
            process.high_watermark = 0

    def turn(self, process: Process, state: PartitionState, revision: int) -> None:
        """Begin a leader epoch as leader, as follower, or as neither."""
        process.epoch = state.leader_epoch
        process.leader = process.follower = None
        process.waiting.clear()
        process.proposals.clear()
        if state.leader == process.broker:
            now_s = self.clock(process)
            leader = self.kinds.leader(process.log, process.lease, state, revision, now_s)
            leader.rules = Rules(MIN_IN_SYNC, LAG_MAX_S)
            leader.high_watermark = process.high_watermark
            leader.on_safe(self.safe(process), now_s)
            process.leader = leader
        elif state.leader != NO_LEADER:
            process.follower = self.kinds.follower(
                state.leader, state.leader_epoch, process.log, process.high_watermark, process.ids
            )

    # The network.

    def send(self, message: Callable[[], None]) -> None:
        is_held = self.hold_rate and self.random.random() < self.hold_rate
        (self.held if is_held else self.messages).append(message)

    def fetch(self, process: Process) -> None:
        if process.follower is None:
            return
        fetch = process.follower.fetch(self.safe(process))
        if fetch is not None:
            source = Source(process.broker, process.broker_epoch)
            leader = process.follower.leader
            self.send(lambda: self.deliver_fetch(leader, source, fetch))

    def deliver_fetch(self, broker: int, source: Source, fetch: Fetch) -> None:
        process = self.up.get(broker)
        if process is None or process.leader is None or process.is_stopped:
            return
        answer = process.leader.admit(source, fetch, self.clock(process))
        if answer is None:
            some = process.log.records[fetch.offset : fetch.offset + RECORDS_PER_ANSWER]
            answer = process.leader.answer(fetch, some)  # type: ignore[arg-type]
        self.send(lambda: self.deliver_answer(source.broker, broker, answer))
        self.after(process)

    def deliver_answer(self, broker: int, source: int, answer: Answer) -> None:
        process = self.up.get(broker)
        if process is None or process.follower is None or process.is_stopped:
            return
        follower, log = process.follower, process.log
        step = follower.on_answer(source, answer)
        if isinstance(step, Append):
            log.records += step.records  # type: ignore[arg-type]
            follower.on_committed(answer)
        elif isinstance(step, Cut):
            if step.offset < follower.high_watermark and self.kinds.waits_for_disk:
                raise Violation("a follower cuts what is committed")
            log.cut(step.offset)
            follower.on_cut()
        elif isinstance(step, Restart):
            raise Violation("nothing was ever trimmed")
        process.high_watermark = follower.high_watermark

    # Clients.

    def produce(self, process: Process) -> None:
        leader = process.leader
        if leader is None or not leader.has_enough:
            return
        value = next(self.values)
        process.log.records.append((leader.epoch, value))
        process.waiting.append((process.log.end_offset - 1, value))
        self.progressed(process)

    # What must hold.

    def after(self, process: Process) -> None:
        """Send what a broker has to say, hand out acknowledgements, and check the rules."""
        leader = process.leader
        if leader is None:
            return
        proposal = leader.take_proposal()
        if proposal is not None:
            process.proposals.append(proposal)
            self.send(lambda: self.decide(process, proposal))
        if self.leaders.setdefault(leader.epoch, process.broker) != process.broker:
            raise Violation("two leaders in one epoch")
        if leader.high_watermark > process.high_watermark:
            self.committed(process, leader.high_watermark)
        if leader.high_watermark < process.high_watermark:
            raise Violation("the high watermark goes back")
        if leader.epoch == self.state.leader_epoch and self.kinds.waits_for_disk:
            self.check_kept(process.log, "the leader lacks what was acknowledged")

    def committed(self, process: Process, high_watermark: int) -> None:
        if self.leases[process.broker] <= self.now_s and process.broker in self.fenced:
            raise Violation("a leader commits after its lease was taken")
        for offset in range(process.high_watermark, high_watermark):
            record = process.log.records[offset]
            if offset < len(self.seen) and self.seen[offset] != record:
                raise Violation("what was read changes")
            if offset == len(self.seen):
                self.seen.append(record)
        process.high_watermark = high_watermark
        done = [one for one in process.waiting if one[0] < high_watermark]
        process.waiting = process.waiting[len(done) :]
        self.acked.update(done)
        for broker in self.state.isr:
            if self.kinds.waits_for_disk or broker in self.up:
                self.check_kept(self.disks[broker], "an in-sync replica lacks what is committed")

    def check_kept(self, log: SimLog, fault: str) -> None:
        last = len(self.seen) - 1
        if last >= 0 and (log.end_offset <= last or log.records[last] != self.seen[last]):
            raise Violation(fault)

    def check_acked(self, log: SimLog) -> None:
        for offset, value in self.acked.items():
            if offset >= log.end_offset or log.records[offset][1] != value:
                raise Violation("an acknowledged record is lost")

    # The schedule.

    def step(self) -> None:
        random = self.random
        self.now_s += random.random() * self.step_s * 2
        if self.held and random.random() < 0.03:
            self.messages.append(self.held.pop(random.randrange(len(self.held))))
        broker = random.randrange(len(self.brokers))
        process = self.up.get(broker)
        if random.random() < self.fault_rate:
            self.fault(broker, process)
        elif random.random() < 0.45 or process is None or process.is_stopped:
            self.deliver()
        else:
            self.work(process, random.random())
        for other in self.up.values():
            now_s = self.now_s * other.clock_rate
            if now_s + 3 > other.lease.until_s and not other.is_stopped:
                self.renew(other)

    def deliver(self) -> None:
        if self.messages:
            index = self.random.randrange(len(self.messages))
            self.messages[index], self.messages[-1] = self.messages[-1], self.messages[index]
            self.messages.pop()()

    def work(self, process: Process, chance: float) -> None:
        """Let a broker do something of its own."""
        works = (
            (0.15, self.watch),
            (0.45, self.produce if process.leader is not None else self.fetch),
            (0.85, self.flush),
            (0.90, self.tick),
            (0.93, self.settle),
            (0.94, self.lose_link),
            (1.00, self.control),
        )
        next(do for limit, do in works if chance < limit)(process)

    def watch(self, process: Process) -> None:
        if process.watched and process.broker not in self.cut_off:
            self.hear(process, process.watched.pop(0))

    def hear(self, process: Process, known: Known) -> None:
        process.known = known
        self.learn(process, known.state, known.revision)

    def tick(self, process: Process) -> None:
        if process.leader is not None:
            process.leader.tick(self.clock(process))
            self.after(process)

    def lose_link(self, process: Process) -> None:
        if process.follower is not None:
            process.follower.on_lost()

    def control(self, _: Process) -> None:
        """Let the controller look whose lease has ended, and who is back."""
        expired = [b for b in self.brokers if self.leases[b] <= self.now_s]
        for broker in expired:
            self.fence(broker)
        for broker in sorted(self.fenced.difference(expired)):
            self.unfence(broker)
        if self.random.random() < 0.2:
            self.prefer()

    def fault(self, broker: int, process: Process | None) -> None:
        random = self.random
        kind = random.random()
        if process is None:
            self.register(broker)
        elif random.random() < self.crash_rate:
            self.crash(broker)
            if random.random() < 0.5:  # a supervisor is quick
                self.register(broker)
                self.unfence(broker)
        elif kind < 0.3:
            process.is_stopped = not process.is_stopped
        elif kind < 0.6:
            self.cut_off ^= {broker}
        else:
            self.now_s += random.random() * LEASE_S * 1.5

    def heal(self) -> str:
        """Mend everything; then all must be equal and complete, or say that nobody can lead."""
        self.messages += self.held
        self.held, self.hold_rate = [], 0.0
        self.cut_off.clear()
        for broker in self.brokers:
            if broker not in self.up:
                self.register(broker)
        for process in self.up.values():
            process.is_stopped = False
        for _ in range(HEALING_ROUNDS):
            self.heal_round()
            state = self.state
            if state.leader == NO_LEADER and not state.isr and not state.elr:
                return "nobody can lead"
            if self.is_whole():
                self.check_acked(self.disks[state.leader])
                return "healed"
        raise Violation("the cluster does not heal")

    def is_whole(self) -> bool:
        """Return whether all copies are in sync and equal."""
        first, *others = (self.disks[b].records for b in self.state.replicas)
        return len(self.state.isr) == COPIES and all(one == first for one in others)

    def heal_round(self) -> None:
        self.now_s += 1
        for process in list(self.up.values()):
            self.renew(process)
            self.unfence(process.broker)
            self.settle(process)
            while process.watched:
                self.hear(process, process.watched.pop(0))
            self.flush(process)
            self.flush(process)
            self.lose_link(process)
            self.fetch(process)
            self.tick(process)
        while self.messages:
            self.deliver()


def simulate(seed: int, kinds: Kinds, steps: int = STEPS) -> World:
    """Run one schedule to its end; raise Violation if a rule was broken."""
    world = World(seed, kinds)
    for _ in range(steps):
        world.step()
    outcome = world.heal()
    if outcome != "healed" and kinds.waits_for_disk:
        raise Violation(outcome)
    return world


def run(seed: int) -> None:
    """Run one schedule with the broker's machines; the seed also picks the kind of disk."""
    simulate(seed, Kinds(waits_for_disk=seed % 3 != 0))

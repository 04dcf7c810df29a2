"""Controllers that compete: one partition on three of four brokers, any of which may decide.

Each broker knows the store only as far as its watch has told, takes the controller's key when it
sees none, and decides with the broker's own `Controller`: who leads, and where the ring wants the
copies. A controller may be stopped and go on after another has taken its place. Brokers come back
in the steps of `Registration`, with anything in between. Whatever they decide, what was
acknowledged must stay, as in `replication`.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import count

from chordmq.cluster.controller import Change, Controller, ControllerSettings, Seen, View
from chordmq.cluster.elections import elected, fenced
from chordmq.cluster.ring.placement import Placement
from chordmq.cluster.state import NO_LEADER, PartitionState
from tests.sim.brokers import Key, Kinds, Known, Process, Violation
from tests.sim.replication import COPIES, LEASE_S, World

BROKERS = range(4)
STEPS = 350
CLUSTER = "simulated"
PLACE = (b"0123456789abcdef", 0)
UUIDS = {broker: f"uuid-{broker}" for broker in BROKERS}
SETTINGS = ControllerSettings(rebalance_delay_s=8.0, leader_balance_s=10.0, moves_max=1)


class Deciding(Controller):
    """The broker's controller, with rings that are not computed anew for each schedule."""

    def _ring(self, view: View, now_s: float) -> Placement:
        delay_s = self._settings.rebalance_delay_s
        return _placement(
            frozenset(
                one
                for one in view.uuids
                if one in view.live or now_s - self._away_since_s[one] < delay_s
            )
        )


@cache
def _placement(there: frozenset[int]) -> Placement:
    return Placement(CLUSTER, {one: UUIDS[one] for one in sorted(there)}, {})


@dataclass(frozen=True, slots=True)
class Habits:
    """How controllers and returning brokers behave; mutants behave otherwise."""

    controller: type[Controller] = Deciding
    compares_key: bool = True
    compares_revision: bool = True
    steps_back: bool = True
    remembers_loss: bool = True
    """Whether a start that ends before the broker has stepped back is remembered as unclean."""


@dataclass(slots=True)
class Return:
    """A broker on its way back."""

    epoch: int
    lost: bool
    """Whether its disk may have lost records that it had when it was in sync."""


@dataclass(slots=True)
class Desk:
    """What a process does as controller, while it holds the key."""

    created: int
    controller: Controller


@dataclass(slots=True)
class Lives:
    """What the store keeps of brokers' starts."""

    returning: dict[int, Return] = field(default_factory=dict)
    unsettled: dict[int, bool] = field(default_factory=dict)
    """Brokers whose last start has not ended, and whether it was unclean."""


class Contested(World):
    """The brokers of `replication` with a fourth, and all of them as controllers."""

    def __init__(self, seed: int, kinds: Kinds, habits: Habits) -> None:
        self.habits = habits
        self.key: Key | None = None
        self.key_until_s = 0.0
        self.keys = count(1)
        self.desks: dict[int, Desk] = {}
        """By the broker epochs of processes."""
        self.lives = Lives()
        self.decided: set[int] = set()
        """Revisions of the partition that a controller has changed."""
        super().__init__(seed, kinds, BROKERS)
        self.relapse_rate = self.random.choice((0.0, 0.1, 0.4))

    def known(self) -> Known:
        live = frozenset(self.brokers) - self.fenced
        return Known(self.state, self.revision, live, self.key)

    def put(self, state: PartitionState) -> None:
        before = self.state
        if state.leader_epoch < before.leader_epoch:
            raise Violation("an epoch begins again")
        if state.leader != before.leader:
            if state.leader_epoch <= before.leader_epoch:
                raise Violation("another leads in the same epoch")
            able = {*before.isr, *before.elr, *before.last_known_elr}
            if state.leader != NO_LEADER and state.leader not in able:
                raise Violation("one leads who may lack records")
        if len(set(state.replicas) - set(state.adding)) < COPIES:
            raise Violation("a copy is given up before its successor has all")
        super().put(state)

    # The key, and what is decided with it.

    def expire(self) -> None:
        """Let the store forget what hung on leases that have ended."""
        ended = {one for one in self.brokers if self.leases[one] <= self.now_s} - self.fenced
        is_key_over = self.key is not None and self.key_until_s <= self.now_s
        self.fenced |= ended
        if is_key_over:
            self.key = None
        if ended or is_key_over:
            self.publish()

    def control(self, process: Process) -> None:
        """Let a broker do what it takes to be its duty."""
        self.expire()
        known = process.known
        if known is None or process.broker in self.cut_off:
            return
        if known.controller is None:
            self.send(lambda: self.take_key(process))
        elif known.controller.life == process.broker_epoch:
            self.decide_all(process, known, known.controller)

    def take_key(self, process: Process) -> None:
        if self.key is None and self.is_current(process) and process.broker not in self.fenced:
            self.key = Key(process.broker_epoch, next(self.keys))
            self.key_until_s = self.leases[process.broker]
            self.publish()

    def is_current(self, process: Process) -> bool:
        """Return whether a broker has not registered since."""
        return self.epochs[process.broker] == process.broker_epoch

    def decide_all(self, process: Process, known: Known, key: Key) -> None:
        desk = self.desks.get(process.broker_epoch)
        now_s = self.clock(process)
        if desk is None or desk.created != key.created:
            controller = self.habits.controller(CLUSTER, SETTINGS, now_s)
            desk = self.desks[process.broker_epoch] = Desk(key.created, controller)
        view = View(
            live=known.live,
            uuids=UUIDS,
            partitions={PLACE: Seen(known.state, known.revision)},
            rules=lambda _: self.rules,
        )
        for change in desk.controller.plan(view, now_s):
            self.send(lambda change=change: self.make(process, desk.created, change))  # type: ignore[misc]

    def make(self, process: Process, created: int, change: Change) -> None:
        """Carry out a controller's change if the store is as it was seen."""
        is_holder = self.key is not None and self.key.created == created
        is_fresh = change.revision == self.revision
        if (is_holder or not self.habits.compares_key) and (
            is_fresh or not self.habits.compares_revision
        ):
            if not is_holder:
                raise Violation("a controller decides after it was replaced")
            if change.revision in self.decided:
                raise Violation("two decisions are made on the same state")
            self.decided.add(change.revision)
            self.put(change.state)
        elif self.up.get(process.broker) is process and process.broker not in self.cut_off:
            self.hear(process, self.known())  # it reads the store again

    # Lives of a broker.

    def renew(self, process: Process) -> None:
        broker = process.broker
        if broker in self.cut_off or not self.is_current(process):
            return
        if broker in self.fenced:  # its lease was lost: it looks first, then lives again
            self.hear(process, self.known())
            self.fenced.discard(broker)
            self.publish()
        super().renew(process)
        if self.key is not None and self.key.life == process.broker_epoch:
            self.key_until_s = self.now_s + LEASE_S

    def register(self, broker: int) -> None:
        """Begin to come back; an earlier attempt that has not ended counts as a crash."""
        lost = broker in self.unclean
        if self.habits.remembers_loss:
            lost |= self.lives.unsettled.get(broker, False)
        self.unclean.discard(broker)
        self.fenced.add(broker)
        self.epochs[broker] = max(self.epochs.values()) + 1
        self.lives.returning[broker] = Return(self.epochs[broker], lost)
        self.lives.unsettled[broker] = lost
        self.publish()

    def go_on(self, broker: int) -> None:
        """Take the next step back: out of every in-sync set first, then to live again."""
        back = self.lives.returning[broker]
        lost = back.lost and self.kinds.drops_unclean
        changed = fenced(self.state, broker, self.rules, lost=lost)
        if changed != self.state and self.habits.steps_back:
            live = set(self.brokers) - self.fenced
            changed, revision = elected(changed, live, self.rules), self.revision
            self.send(lambda: self.step_back(broker, back, revision, changed))
            return
        del self.lives.returning[broker]
        self.lives.unsettled.pop(broker, None)
        self.leases[broker] = self.now_s + LEASE_S
        self.start(broker)

    def step_back(self, broker: int, back: Return, revision: int, state: PartitionState) -> None:
        if self.epochs[broker] == back.epoch and revision == self.revision:
            self.put(state)

    def unfence(self, broker: int) -> None:
        """Do nothing: brokers live again by themselves."""

    # The schedule.

    def step(self) -> None:
        super().step()
        for broker in list(self.lives.returning):
            chance = self.random.random()
            if chance < 0.1:
                self.go_on(broker)
            elif chance < 0.1 + self.relapse_rate:  # its program ends before it is back
                del self.lives.returning[broker]

    def heal_round(self) -> None:
        for broker in list(self.lives.returning):
            self.go_on(broker)
        for process in list(self.up.values()):
            self.control(process)
        super().heal_round()

    def is_whole(self) -> bool:
        state = self.state
        wanted = _placement(frozenset(self.brokers)).replicas(*PLACE, COPIES)
        return set(state.replicas) == set(wanted) and super().is_whole()


def simulate(seed: int, kinds: Kinds, habits: Habits, steps: int = STEPS) -> Contested:
    """Run one schedule to its end; raise Violation if a rule was broken."""
    world = Contested(seed, kinds, habits)
    for _ in range(steps):
        world.step()
    outcome = world.heal()
    if outcome != "healed" and kinds.waits_for_disk:
        raise Violation(outcome)
    return world


def run(seed: int) -> None:
    """Run one schedule with the broker's machines; the seed also picks the kind of disk."""
    simulate(seed, Kinds(waits_for_disk=seed % 3 != 0), Habits())

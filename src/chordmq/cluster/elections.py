"""How a partition's state changes when brokers come and go: fencing, election, reassignment."""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from chordmq.cluster.replication.in_sync import with_isr
from chordmq.cluster.state import NO_LEADER, PartitionState
from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the settings of a topic say about its replicas."""

    min_in_sync: int = 1
    is_durable: bool = True
    """Whether records are on disk before they count, so that no crash loses any."""
    allows_unclean: bool = False
    """Whether a replica may lead that may lack acknowledged records, if no other can."""
    follows_ring: bool = True
    """Whether the ring says who holds the partitions, and not a person."""


def fenced(state: PartitionState, broker: int, rules: Rules, *, lost: bool) -> PartitionState:
    """Return the state without a broker that is gone, or has come back having lost records.

    Whoever is the last to leave stays eligible: nothing is acknowledged without it.
    """
    if broker in state.isr:
        isr = [one for one in state.isr if one != broker]
        state = with_isr(state, isr, rules.min_in_sync)
    if lost and not rules.is_durable and broker in state.elr:
        state = replace(
            state,
            elr=_without(state.elr, [broker]),
            last_known_elr=tuple(sorted({*state.last_known_elr, broker})),
        )
    if state.leader == broker:
        state = replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
    return state


def elected(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """Return the state with a leader, if it has none and somebody may be it.

    In-sync replicas come first, then eligible ones. If all of these are known to have lost records
    but one, that one has at least what the others have.
    """
    if state.leader != NO_LEADER:
        return state
    for candidates in (state.isr, state.elr):
        for broker in state.replicas:
            if broker in candidates and broker in live:
                return _led_by(state, broker, rules)
    if state.isr or state.elr:
        return state  # whoever has everything will come back
    known = state.last_known_elr
    if len(known) == 1 and known[0] in live:
        return _led_by(state, known[0], rules)
    if rules.allows_unclean:
        return elected_uncleanly(state, live, rules)
    return state


def elected_uncleanly(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """Return the state with any living replica as leader: acknowledged records may be lost."""
    if state.leader != NO_LEADER:
        return state
    for candidates in (state.isr, state.elr, state.last_known_elr, state.replicas):
        for broker in state.replicas:
            if broker in candidates and broker in live:
                return replace(
                    _led_by(state, broker, rules), isr=(broker,), elr=(), last_known_elr=()
                )
    return state


def led_by_preferred(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """Return the state led by the first of its replicas, if that is in sync and lives."""
    first = state.replicas[0]
    if state.leader == first or first not in state.isr or first not in live:
        return state
    return _led_by(state, first, rules)


def handed_over(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """Return the state after brokers that do not live are fenced, and with a leader if it can.

    All that go in one step have what was acknowledged before it, so that all stay eligible.
    """
    isr = [broker for broker in state.isr if broker in live]
    if len(isr) < len(state.isr):
        state = with_isr(state, isr, rules.min_in_sync)
    if state.leader != NO_LEADER and state.leader not in live:
        state = replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
    return elected(state, live, rules)


def reassigned(state: PartitionState, target: Iterable[int]) -> PartitionState:
    """Return the state on its way to other replicas; the old ones stay until the new have all.

    The order is that of the target, so that its first is preferred as soon as it is in sync.
    """
    wanted = tuple(target)
    # A replica of an earlier reassignment that has not caught up is not worth keeping.
    held = [one for one in state.replicas if one not in state.adding or one in state.isr]
    return replace(
        state,
        replicas=tuple(dict.fromkeys([*wanted, *held])),
        adding=tuple(one for one in wanted if one not in held),
        removing=tuple(one for one in held if one not in wanted),
    )


def cancelled(state: PartitionState) -> PartitionState:
    """Return the state on its way back to the replicas from before its reassignment."""
    return reassigned(state, _without(state.replicas, state.adding))


def settled(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """Return the state with its reassignment done, if all new replicas are in sync."""
    if not state.adding and not state.removing:
        return state
    isr = _without(state.isr, state.removing)
    if not isr or not set(state.adding) <= set(isr):
        return state
    removing = state.removing
    changed = replace(
        state,
        replicas=_without(state.replicas, removing),
        adding=(),
        removing=(),
        isr=isr,
        elr=_without(state.elr, removing),
        last_known_elr=_without(state.last_known_elr, removing),
    )
    if changed.leader in removing:
        changed = replace(changed, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
        changed = elected(changed, live, rules)
        if changed.leader == NO_LEADER:
            return state  # not while nobody could take over
    return changed


def _led_by(state: PartitionState, broker: int, rules: Rules) -> PartitionState:
    isr = state.isr if broker in state.isr else (*state.isr, broker)
    led = replace(
        state,
        leader=broker,
        leader_epoch=state.leader_epoch + 1,
        last_known_elr=_without(state.last_known_elr, [broker]),
    )
    return led if isr == state.isr else with_isr(led, isr, rules.min_in_sync)


def _without(brokers: Iterable[int], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(one for one in brokers if one not in gone)

"""How the in-sync set of a partition changes, and who stays eligible to lead when it gets small."""

from collections.abc import Iterable

from msgspec.structs import replace

from chordmq.cluster.state import PartitionState


def needed(min_in_sync: int, replicas: int) -> int:
    """Return how many in-sync replicas it takes to commit; never more than there are replicas."""
    return min(min_in_sync, replicas)


def with_isr(state: PartitionState, isr: Iterable[int], min_in_sync: int) -> PartitionState:
    """Return the state with another in-sync set.

    Nothing is committed while the set is too small, so those who leave it then still have all that
    was acknowledged: they stay eligible (KIP-966) until the set is large enough again.
    """
    members = tuple(sorted(isr))
    if len(members) >= needed(min_in_sync, len(state.replicas)):
        return replace(state, isr=members, elr=(), last_known_elr=())
    eligible = tuple(sorted((set(state.elr) | set(state.isr)) - set(members)))
    known = tuple(sorted(set(state.last_known_elr) - set(members) - set(eligible)))
    return replace(state, isr=members, elr=eligible, last_known_elr=known)

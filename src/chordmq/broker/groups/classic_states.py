"""The states of a classic group and what leads from one to another; other pairs are bugs."""

from enum import Enum, auto


class State(Enum):
    """Where a group stands; the values are the names that clients show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What moves a group from one state to another."""

    REBALANCE = auto()
    JOINED = auto()
    EMPTIED = auto()
    ASSIGNED = auto()
    DELETED = auto()


TRANSITIONS = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.COMPLETING, Event.REBALANCE): State.PREPARING,
    (State.PREPARING, Event.JOINED): State.COMPLETING,
    (State.PREPARING, Event.EMPTIED): State.EMPTY,
    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.ASSIGNED): State.STABLE,  # a restart finds the generation in the log
    (State.EMPTY, Event.DELETED): State.DEAD,
}

"""What a simulated cluster is made of: disks that lose, processes that end, and which code runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any, NamedTuple

from chordmq.cluster.replication.follower import Follower
from chordmq.cluster.replication.leader import Leader, Lease, Proposal
from chordmq.cluster.state import PartitionState


class Violation(AssertionError):
    """Something happened that must never happen."""


class SimLog:
    """Records as (leader epoch, value); what lies behind `durable` is lost with the power."""

    start_offset = 0

    def __init__(self) -> None:
        self.records: list[tuple[int, Any]] = []
        self.durable = 0
        self.flushing: int | None = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.records[-1][0] if self.records else -1

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        for offset in range(len(self.records) - 1, -1, -1):
            if self.records[offset][0] <= leader_epoch:
                return self.records[offset][0], offset + 1
        return -1, -1

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.durable = min(self.durable, offset)
        self.flushing = None


@dataclass
class Kinds:
    """Which machines are simulated; mutants take the place of one."""

    leader: type[Leader] = Leader
    follower: type[Follower] = Follower
    waits_for_disk: bool = True
    """Whether records count only once they are flushed, as with flush=disk."""
    checks_broker_epochs: bool = True
    keeps_eligible: bool = True
    drops_unclean: bool = True
    is_unclean_allowed: bool = False
    heeds_lease: bool = True
    settles_doubt: bool = True
    loses_power: bool = True
    flushes_first: bool = True
    """False: what is only written is taken for flushed, though the topic demands a flush."""


class Key(NamedTuple):
    """The controller's key in the store."""

    life: int
    """The broker epoch of the process that holds it."""
    created: int


class Known(NamedTuple):
    """What the store holds at one moment, as a watch tells it."""

    state: PartitionState
    revision: int
    live: frozenset[int] = frozenset()
    controller: Key | None = None


@dataclass
class Process:
    """One life of a broker."""

    broker: int
    broker_epoch: int
    log: SimLog
    clock_rate: float
    lease: Lease = field(default_factory=lambda: Lease(-inf))
    revision: int = -1
    epoch: int = -1
    leader: Leader | None = None
    follower: Follower | None = None
    high_watermark: int = 0
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """Offset and value of what producers wait for."""
    watched: list["Known"] = field(default_factory=list)
    """What the store will tell next."""
    known: "Known | None" = None
    proposals: list[Proposal] = field(default_factory=list)
    """Sent to the store, outcome unknown."""
    is_stopped: bool = False
    ids: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = count(self.broker_epoch << 32)

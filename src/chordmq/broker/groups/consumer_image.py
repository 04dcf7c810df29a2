"""What the log says of one group of the consumer protocol: records, and the image they add up to.

Everything a group must remember is a record, and only `Image.replay` changes an image; so memory
and log cannot tell different stories, and a restart is nothing but replaying again.
"""

from enum import Enum
from typing import NamedTuple, TypeVar

from chordmq.broker.groups.assignors import NOTHING, Assignment, Place
from chordmq.broker.groups.membership import Protocols
from chordmq.dataclass import dataclass

Value = TypeVar("Value")

LEFT_FOR_NOW = -2
"""The epoch of a static member whose process has gone and may come back."""


class Step(Enum):
    """How far a member is on its way to its target; the values are those of the log."""

    STABLE = 0
    UNREVOKED = 1
    """It was asked to give partitions up and has not said that it did."""
    UNRELEASED = 2
    """It waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True)
class ClassicTerms:
    """What a member of the classic protocol brings into a group of the new one."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member as it describes itself."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicTerms | None = None
    """Set while the member speaks the classic protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a member has, what it must give up, and the epoch that it was told."""

    epoch: int = 0
    previous_epoch: int = 0
    """The answer that brought the newest epoch may have been lost, so this one is taken too."""
    step: Step = Step.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING

    @property
    def all(self) -> Assignment:
        """Return every partition that nobody else may have yet."""
        return self.assigned | self.revoking


class EpochRecord(NamedTuple):
    """The group's epoch, with a digest of its topics as they were; None deletes the group."""

    group_id: str
    epoch: int | None
    topics_digest: int = 0


class MemberRecord(NamedTuple):
    """A member's description; None when it has gone."""

    group_id: str
    member_id: str
    member: ConsumerMember | None


class TargetEpochRecord(NamedTuple):
    """The epoch that the target assignment was made for."""

    group_id: str
    epoch: int | None


class TargetRecord(NamedTuple):
    """What a member is to have."""

    group_id: str
    member_id: str
    assignment: Assignment | None


class HoldingRecord(NamedTuple):
    """What a member has."""

    group_id: str
    member_id: str
    holding: Holding | None


ConsumerRecord = EpochRecord | MemberRecord | TargetEpochRecord | TargetRecord | HoldingRecord


class Image:
    """One group as its records tell it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.exists = False
        self.epoch = 0
        self.topics_digest = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.holdings: dict[str, Holding] = {}
        self.static: dict[str, str] = {}
        """Member ids by instance id."""
        self.holders: dict[Place, str] = {}
        """Who has a partition or has not given it up yet."""

    def replay(self, record: ConsumerRecord) -> None:
        """Take over one record."""
        match record:
            case EpochRecord():
                self.exists = record.epoch is not None
                self.epoch, self.topics_digest = record.epoch or 0, record.topics_digest
            case TargetEpochRecord():
                self.target_epoch = record.epoch or 0
            case TargetRecord():
                _put(self.targets, record.member_id, record.assignment)
            case MemberRecord():
                self._replay_member(record)
            case HoldingRecord():
                self._replay_holding(record)

    def _replay_member(self, record: MemberRecord) -> None:
        before = self.members.get(record.member_id)
        if before is not None and self.static.get(before.instance_id or "") == record.member_id:
            del self.static[before.instance_id or ""]
        if record.member is not None and record.member.instance_id is not None:
            self.static[record.member.instance_id] = record.member_id
        _put(self.members, record.member_id, record.member)

    def _replay_holding(self, record: HoldingRecord) -> None:
        before = self.holdings.get(record.member_id)
        for place in before.all if before is not None else ():
            if self.holders.get(place) == record.member_id:
                del self.holders[place]
        for place in record.holding.all if record.holding is not None else ():
            self.holders[place] = record.member_id
        _put(self.holdings, record.member_id, record.holding)

    def target(self, member_id: str) -> Assignment:
        """Return what a member is to have."""
        return self.targets.get(member_id, NOTHING)

    def holding(self, member_id: str) -> Holding:
        """Return what a member has; one that was just taken in has nothing."""
        return self.holdings.get(member_id, _NOTHING_YET)

    def records(self) -> list[ConsumerRecord]:
        """Return records that add up to this image."""
        if not self.exists:
            return []
        group_id = self.group_id
        return [
            EpochRecord(group_id, self.epoch, self.topics_digest),
            *(MemberRecord(group_id, *entry) for entry in self.members.items()),
            TargetEpochRecord(group_id, self.target_epoch),
            *(TargetRecord(group_id, *entry) for entry in self.targets.items()),
            *(HoldingRecord(group_id, *entry) for entry in self.holdings.items()),
        ]

    def deletion(self) -> list[ConsumerRecord]:
        """Return records that leave nothing of this image."""
        group_id = self.group_id
        return [
            *(HoldingRecord(group_id, member_id, None) for member_id in self.holdings),
            *(TargetRecord(group_id, member_id, None) for member_id in self.targets),
            TargetEpochRecord(group_id, None),
            *(MemberRecord(group_id, member_id, None) for member_id in self.members),
            EpochRecord(group_id, None),
        ]

    def copy(self) -> "Image":
        """Return an image of its own that says the same."""
        copy = Image(self.group_id)
        for record in self.records():
            copy.replay(record)
        return copy


_NOTHING_YET = Holding()


def _put(table: dict[str, Value], key: str, value: Value | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value

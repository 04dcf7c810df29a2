"""One consumer's place in a group: join, assignment, heartbeats, leaving (the classic protocol)."""

import asyncio
import struct
from collections.abc import Iterable, Sequence

from chordmq.client.assignors import ASSIGNORS, Assignment
from chordmq.client.backoff import Backoff
from chordmq.client.cluster import Cluster
from chordmq.client.codes import Code
from chordmq.client.connection import Connection
from chordmq.client.errors import BrokerRefused, ClientError, check
from chordmq.client.offsets import Owner, TopicPartition, by_topic
from chordmq.codecs.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from chordmq.codecs.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chordmq.codecs.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from chordmq.codecs.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from chordmq.codecs.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.dataclass import dataclass

PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION = 1
ASSIGNMENT_VERSION = 0
JOIN_GRACE_S = 5.0

_VERSION = struct.Struct(">h")

MOVED = frozenset(
    {
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.BROKER_NOT_AVAILABLE,
    }
)
_REJOIN = frozenset({Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer takes part in its group."""

    group: str
    instance_id: str | None = None
    assignors: tuple[str, ...] = ("range", "roundrobin")
    session_timeout_ms: int = 45_000
    heartbeat_interval_s: float = 3.0
    rebalance_timeout_ms: int = 300_000
    topics_check_s: float = 60.0
    """How often the group's leader looks whether its topics have grown."""


def write_subscription(topics: Sequence[str]) -> bytes:
    """Write what a member tells the group about itself."""
    subscription = ConsumerProtocolSubscription(topics=list(topics))
    return _VERSION.pack(SUBSCRIPTION_VERSION) + encode(subscription, SUBSCRIPTION_VERSION)


def read_subscription(data: bytes) -> list[str]:
    """Read the topics that a member subscribes to, whatever newer version it writes."""
    (version,) = _VERSION.unpack_from(data)
    known = min(version, ConsumerProtocolSubscription.versions[-1])
    return decode(ConsumerProtocolSubscription, known, data, _VERSION.size).topics


def write_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Write the partitions that the leader gives a member."""
    rows = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=rows)
    return _VERSION.pack(ASSIGNMENT_VERSION) + encode(assignment, ASSIGNMENT_VERSION)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Read the partitions given to a member; no bytes mean none."""
    if not data:
        return []
    (version,) = _VERSION.unpack_from(data)
    known = min(version, ConsumerProtocolAssignment.versions[-1])
    assignment = decode(ConsumerProtocolAssignment, known, data, _VERSION.size)
    return [
        (row.topic, index) for row in assignment.assigned_partitions for index in row.partitions
    ]


class Membership:
    """A member of a group: `join` when `is_stale`, and keep `beat` running beside it."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, topics: Sequence[str]) -> None:
        self.settings = settings
        self.topics = tuple(topics)
        self.owner = Owner(instance_id=settings.instance_id)
        self.is_stale = True
        self._cluster = cluster
        self._joined = asyncio.Event()
        self._counts: dict[str, int] = {}
        """Partitions of each topic as this member, if it leads the group, has dealt them out."""
        self._check_at_s = 0.0

    async def coordinator(self) -> Connection:
        """Return a connection to the group's coordinator."""
        return await self._cluster.coordinator(self.settings.group)

    async def join(self) -> list[TopicPartition]:
        """Take part in the next generation and return the partitions it gives to this member."""
        self._joined.clear()
        backoff = Backoff(self._cluster.chance)
        while True:
            try:
                joined = await self._join()
                assigned = await self._sync(joined)
                self.is_stale = False
                self._joined.set()
                return assigned
            except ClientError as error:
                if isinstance(error, BrokerRefused) and self._learn(error.code):
                    continue
                moved = isinstance(error, BrokerRefused) and error.code in MOVED
                if not moved and (isinstance(error, BrokerRefused) or not error.retriable):
                    raise
            await asyncio.sleep(backoff.next_s())

    async def beat(self) -> None:
        """Tell the coordinator again and again that this member lives; never returns."""
        while True:
            await self._joined.wait()
            await asyncio.sleep(self.settings.heartbeat_interval_s)
            if self._joined.is_set():
                await self._beat_once()
                await self._look_for_growth()

    async def leave(self) -> None:
        """Leave the group at once; a static member stays, so that its restart moves nothing."""
        self._joined.clear()
        if not self.owner.member_id or self.settings.instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self.settings.group, members=[MemberIdentity(member_id=self.owner.member_id)]
        )
        try:
            connection = await self.coordinator()
            await connection.call(request, LeaveGroupResponse)
        except ClientError:
            return  # the session time-out removes the member in the end

    async def _join(self) -> JoinGroupResponse:
        settings = self.settings
        metadata = write_subscription(self.topics)
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.owner.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name in settings.assignors],
        )
        connection = await self.coordinator()
        patience_s = settings.rebalance_timeout_ms / 1000 + JOIN_GRACE_S
        answer = await connection.call(request, JoinGroupResponse, patience_s)
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            self.owner = Owner(answer.member_id, -1, settings.instance_id)
        check(answer.error_code, f"group {settings.group}")
        self.owner = Owner(answer.member_id, answer.generation_id, settings.instance_id)
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        plan: Assignment = {}
        self._counts = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            plan = await self._plan(joined)
        request = SyncGroupRequest(
            group_id=self.settings.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member, write_assignment(partitions))
                for member, partitions in plan.items()
            ],
        )
        connection = await self.coordinator()
        patience_s = self.settings.rebalance_timeout_ms / 1000 + JOIN_GRACE_S
        answer = await connection.call(request, SyncGroupResponse, patience_s)
        check(answer.error_code, f"group {self.settings.group}")
        return read_assignment(bytes(answer.assignment))

    async def _plan(self, joined: JoinGroupResponse) -> Assignment:
        assert joined.protocol_name is not None
        subscriptions = {
            member.member_id: read_subscription(bytes(member.metadata)) for member in joined.members
        }
        topics = {topic for wanted in subscriptions.values() for topic in wanted}
        self._counts = await self._count(topics)
        self._check_at_s = self._cluster.clock.monotonic_s() + self.settings.topics_check_s
        return ASSIGNORS[joined.protocol_name](subscriptions, self._counts)

    async def _count(self, topics: Iterable[str]) -> dict[str, int]:
        answer = await self._cluster.refresh(sorted(topics))
        return {str(row.name): len(row.partitions) for row in answer.topics if not row.error_code}

    async def _look_for_growth(self) -> None:
        """Let the group deal anew when partitions were added to one of its topics."""
        now_s = self._cluster.clock.monotonic_s()
        if not self._counts or now_s < self._check_at_s:
            return
        self._check_at_s = now_s + self.settings.topics_check_s
        try:
            grown = await self._count(self._counts) != self._counts
        except ClientError:
            return  # the next check asks again
        self.is_stale = self.is_stale or grown

    async def _beat_once(self) -> None:
        request = HeartbeatRequest(
            group_id=self.settings.group,
            generation_id=self.owner.generation,
            member_id=self.owner.member_id,
            group_instance_id=self.settings.instance_id,
        )
        try:
            connection = await self.coordinator()
            answer = await connection.call(request, HeartbeatResponse)
            check(answer.error_code, f"group {self.settings.group}")
        except BrokerRefused as error:
            if error.code not in MOVED and self._joined.is_set():
                self._learn(error.code)
                self.is_stale = True
        except ClientError:
            return  # the next beat asks again who coordinates the group

    def _learn(self, code: int) -> bool:
        """Take in why the group sends us away; return whether joining again at once may help."""
        if code == Code.UNKNOWN_MEMBER_ID:
            self.owner = Owner(instance_id=self.settings.instance_id)
        return code in _REJOIN or code == Code.MEMBER_ID_REQUIRED

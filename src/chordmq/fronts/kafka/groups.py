"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups and DeleteGroups."""

from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.membership import Identity, Join, Joined, Leaver, Sync
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from chordmq.codecs.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from chordmq.codecs.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chordmq.codecs.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from chordmq.codecs.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from chordmq.codecs.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from chordmq.codecs.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from chordmq.errors import (
    ChordMQError,
    GroupNotFound,
    InconsistentProtocol,
    MemberIdRequired,
    UnknownMember,
)
from chordmq.fronts.kafka.access import authorized_operations
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of

JOIN_TAKES_ID_FIRST = 4
JOIN_MAY_NAME_NO_PROTOCOL = 7
JOIN_CAN_SKIP_ASSIGNMENT = 9
LEAVE_IN_BATCHES = 3
SYNC_NAMES_PROTOCOL = 5
DESCRIBE_NAMES_UNKNOWN = 6

SHARE = "share"


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Take a member into the next generation of its group."""
    timeout_ms = request.rebalance_timeout_ms
    join = Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=_host(call),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((entry.name, bytes(entry.metadata)) for entry in request.protocols),
        takes_id_first=call.version >= JOIN_TAKES_ID_FIRST,
        can_skip_assignment=call.version >= JOIN_CAN_SKIP_ASSIGNMENT,
    )
    no_protocol = None if call.version >= JOIN_MAY_NAME_NO_PROTOCOL else ""
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        if call.broker.share_groups.has(request.group_id):
            raise InconsistentProtocol(f"group {request.group_id} is a share group")
        joined = await call.broker.groups.join(request.group_id, join)
        call.audit("subscribe", f"group {request.group_id}")
        return _joined(joined)
    except MemberIdRequired as error:
        member_id = error.member_id
        code = code_of(error)
    except ChordMQError as error:
        member_id = request.member_id
        code = code_of(error)
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=no_protocol)


def _joined(joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ],
    )


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give a member its assignment once the leader has sent everybody's."""
    sync = Sync(
        member=Identity(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
        ),
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={entry.member_id: bytes(entry.assignment) for entry in request.assignments},
    )
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        if call.version >= SYNC_NAMES_PROTOCOL and None in (sync.protocol_type, sync.protocol):
            raise InconsistentProtocol("the protocol of the generation is not named")
        synced = await call.broker.groups.sync(request.group_id, sync)
    except ChordMQError as error:
        return SyncGroupResponse(error_code=code_of(error))
    return SyncGroupResponse(
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep a member's session alive, or tell it to join again."""
    identity = Identity(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        call.broker.groups.heartbeat(request.group_id, identity)
    except ChordMQError as error:
        return HeartbeatResponse(error_code=code_of(error))
    return HeartbeatResponse()


async def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members at their own wish or an operator's."""
    members = request.members
    if call.version < LEAVE_IN_BATCHES:
        members = [MemberIdentity(member_id=request.member_id)]
    leavers = [
        Leaver(member_id=member.member_id, instance_id=member.group_instance_id)
        for member in members
    ]
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        results = await call.broker.groups.leave(request.group_id, leavers)
    except UnknownMember as error:  # the group is not known, so none of them is
        results = [error] * len(leavers)
    except ChordMQError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    codes = [0 if result is None else code_of(result) for result in results]
    if call.version < LEAVE_IN_BATCHES:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code,
            )
            for member, code in zip(members, codes, strict=True)
        ]
    )


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Show groups with their members; one that nobody knows is shown as dead."""
    rows = []
    for group_id in request.groups:
        try:
            call.check(Operation.DESCRIBE, Kind.GROUP, group_id)
            group = call.broker.groups.find(group_id)
            if isinstance(group, ConsumerGroup):
                raise GroupNotFound(f"Group {group_id} is not a classic group.")
            row = _described(group)
        except GroupNotFound as error:
            row = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
            if call.version >= DESCRIBE_NAMES_UNKNOWN:
                row.error_code, row.error_message = code_of(error), str(error)
        except ChordMQError as error:
            row = DescribedGroup(group_id=group_id, error_code=code_of(error))
        if request.include_authorized_operations and not row.error_code:
            row.authorized_operations = authorized_operations(call, Kind.GROUP, group_id)
        rows.append(row)
    return DescribeGroupsResponse(groups=rows)


def _described(group: Group) -> DescribedGroup:
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.roster.members.values()
        ],
    )


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups in the states and of the types asked for; nothing asked for means all."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    sees_all = call.allows(Operation.DESCRIBE, Kind.CLUSTER)
    try:
        rows = [
            ListedGroup(group.group_id, group.protocol_type, group.state.value, group.kind)
            for group in call.broker.groups.groups()
        ]
        rows += [
            ListedGroup(group.group_id, SHARE, group.state, SHARE)
            for group in call.broker.share_groups.groups()
        ]
    except ChordMQError as error:
        return ListGroupsResponse(error_code=code_of(error))
    return ListGroupsResponse(
        groups=[
            row
            for row in rows
            if (not states or row.group_state.lower() in states)
            and (not types or row.group_type in types)
            and (sees_all or call.allows(Operation.DESCRIBE, Kind.GROUP, row.group_id))
        ]
    )


async def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete empty groups with their offsets."""
    rows = []
    for group_id in dict.fromkeys(request.groups_names):
        row = DeletableGroupResult(group_id=group_id)
        try:
            call.check(Operation.DELETE, Kind.GROUP, group_id)
            if call.broker.share_groups.has(group_id):
                await call.broker.share_groups.delete(group_id)
            else:
                await call.broker.groups.delete(group_id)
            call.audit("group.delete", group_id)
        except ChordMQError as error:
            row.error_code = code_of(error)
        rows.append(row)
    return DeleteGroupsResponse(results=rows)


def _host(call: Call) -> str:
    """Return the client's address as Java prints one, which tools cut the slash off."""
    return f"/{call.client_host}"

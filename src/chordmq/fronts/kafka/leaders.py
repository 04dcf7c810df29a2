"""Where clients find the leader of a partition (KIP-951), or a copy that is nearer (KIP-392)."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.kafka.fetch import NO_REPLICA
from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress

PROTOCOL = "kafka"
SENT_ONCE_IN_S = 60.0

if TYPE_CHECKING:
    from chordmq.fronts.kafka.call import Call


def leader_of(partition: Partition | None) -> Hint | None:
    """Return who leads, where that is known and another node."""
    if partition is None or partition.replica is None or partition.is_leader:
        return None
    leader, epoch = partition.replica.leader_hint
    return None if leader == NO_LEADER else Hint(leader, epoch)


def addresses(broker: Broker, hints: Iterable[Hint | None]) -> list[NodeAddress]:
    """Return where clients reach the leaders that are named."""
    found = []
    for node in sorted({hint.leader for hint in hints if hint is not None}):
        member = broker.members.get(node)
        endpoint = member.endpoint(PROTOCOL) if member is not None else None
        if member is not None and endpoint is not None:
            rack = member.registration.rack
            found.append(NodeAddress(node, endpoint.host, endpoint.port, rack))
    return found


def nearer_replica(broker: Broker, rack: str, partition: Partition, offset: int) -> int:
    """Return an in-sync copy in the client's rack that has the offset, unless the leader is there.

    Copies in the same rack take turns by partition, so that they share the readers.
    """
    leader = partition.replica.leader if partition.replica is not None else None
    if leader is None or not rack or _rack(broker, leader.me) == rack:
        return NO_REPLICA
    near = [
        node
        for node in leader.state.isr
        if node in leader.progress
        and leader.progress[node].offset >= offset
        and _rack(broker, node) == rack
    ]
    return near[partition.index % len(near)] if near else NO_REPLICA


def copy_for(call: "Call", rack: str, partition: Partition, offset: int) -> int:
    """Return the copy that should serve a client; NO_REPLICA if this one should.

    Who comes back soon after it was sent away from a popular partition is served here: the other
    copy could not, or the client does not understand.
    """
    broker, sent = call.broker, call.client.sent_elsewhere
    near = nearer_replica(broker, rack, partition, offset)
    if near != NO_REPLICA or broker.clustering is None:
        return near
    now_s = broker.clock.monotonic_s()
    if now_s - sent.get(partition, -math.inf) < SENT_ONCE_IN_S:
        return NO_REPLICA
    chosen = broker.clustering.crowds.copy_for(partition, offset)
    if chosen != NO_REPLICA:
        sent[partition] = now_s
    return chosen


def _rack(broker: Broker, node: int) -> str:
    member = broker.members.get(node)
    return member.registration.rack if member is not None and member.is_live else ""

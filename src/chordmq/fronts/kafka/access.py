"""Kafka's numbers for what may be done with what, and what a client may do, as bits."""

from chordmq.broker.security.acl import CLUSTER_NAME, Effect, Kind, Match, Operation
from chordmq.fronts.kafka.call import Call

NOT_ASKED = -(2**31)

KINDS = {
    Kind.TOPIC: 2,
    Kind.GROUP: 3,
    Kind.CLUSTER: 4,
    Kind.TRANSACTIONAL_ID: 5,
    Kind.DELEGATION_TOKEN: 6,
    Kind.USER: 7,
}
MATCHES = {Match.LITERAL: 3, Match.PREFIXED: 4}
EFFECTS = {Effect.DENY: 2, Effect.ALLOW: 3}
OPERATIONS = {operation: number for number, operation in enumerate(Operation, start=2)}

_ON_SETTINGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
SENSIBLE: dict[Kind, tuple[Operation, ...]] = {
    Kind.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_ON_SETTINGS,
    ),
    Kind.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_ON_SETTINGS),
    Kind.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_ON_SETTINGS,
    ),
}
"""What can be done with each kind of resource; clients may ask for it."""


def authorized_operations(call: Call, kind: Kind, name: str = CLUSTER_NAME) -> int:
    """Return a bit for each operation that the client may do."""
    return sum(1 << OPERATIONS[one] for one in SENSIBLE[kind] if call.allows(one, kind, name))


def cluster_operations(call: Call, is_asked: bool) -> int:
    """Return what the client may do with the cluster, if it asks and may know."""
    if not is_asked:
        return NOT_ASKED
    if not call.allows(Operation.DESCRIBE, Kind.CLUSTER):
        return 0
    return authorized_operations(call, Kind.CLUSTER)


def check_create(call: Call, topic: str) -> None:
    """Refuse unless the client may create any topic, or this one."""
    if not call.allows(Operation.CREATE, Kind.CLUSTER):
        call.check(Operation.CREATE, Kind.TOPIC, topic)

"""Our errors as the conditions of AMQP 1.0."""

from chordmq import errors
from chordmq.codecs.amqp1.composites import Error
from chordmq.errors import ChordMQError

INTERNAL = "amqp:internal-error"
NOT_FOUND = "amqp:not-found"
UNAUTHORIZED = "amqp:unauthorized-access"
DECODE = "amqp:decode-error"
LIMIT = "amqp:resource-limit-exceeded"
NOT_ALLOWED = "amqp:not-allowed"
INVALID_FIELD = "amqp:invalid-field"
NOT_IMPLEMENTED = "amqp:not-implemented"
LOCKED = "amqp:resource-locked"
PRECONDITION = "amqp:precondition-failed"
DELETED = "amqp:resource-deleted"
ILLEGAL_STATE = "amqp:illegal-state"
FORCED = "amqp:connection:forced"
FRAMING = "amqp:connection:framing-error"
WINDOW = "amqp:session:window-violation"
UNATTACHED = "amqp:session:unattached-handle"
IN_USE = "amqp:session:handle-in-use"
CREDIT = "amqp:link:transfer-limit-exceeded"
TOO_LARGE = "amqp:link:message-size-exceeded"
UNKNOWN_ID = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
TEXT_MAX = 500

CONDITIONS: dict[type[ChordMQError], str] = {
    errors.UnknownQueue: NOT_FOUND,
    errors.UnknownExchange: NOT_FOUND,
    errors.UnknownTopic: NOT_FOUND,
    errors.QueueLocked: LOCKED,
    errors.DeclaredOtherwise: PRECONDITION,
    errors.InvalidRequest: INVALID_FIELD,
    errors.InvalidSetting: INVALID_FIELD,
    errors.InvalidTopicName: INVALID_FIELD,
    errors.BatchTooLarge: TOO_LARGE,
    errors.TopicAccessDenied: UNAUTHORIZED,
    errors.GroupAccessDenied: UNAUTHORIZED,
    errors.ClusterAccessDenied: UNAUTHORIZED,
    errors.AuthenticationFailed: UNAUTHORIZED,
    errors.PolicyViolation: NOT_ALLOWED,
    errors.DiskFull: LIMIT,
    errors.StorageFailed: INTERNAL,
    errors.ShuttingDown: FORCED,
}


class Fault(Exception):
    """What a client did wrong, with its condition."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition

    @property
    def error(self) -> Error:
        """Return what the client is told."""
        return Error(condition=self.condition, description=str(self)[:TEXT_MAX])


class ConnectionFault(Fault):
    """Ends the connection."""


class SessionFault(Fault):
    """Ends a session."""


class LinkFault(Fault):
    """Ends a link."""


def error_of(error: ChordMQError) -> Error:
    """Return an error of ours as what the client is told."""
    condition = CONDITIONS.get(type(error), INTERNAL)
    return Error(condition=condition, description=str(error)[:TEXT_MAX])

"""Our errors as the status of an ACK or DISCONNECT frame."""

from chordmq import errors
from chordmq.codecs.provider.frames import Status

STATUSES: dict[type[Exception], Status] = {
    errors.AuthenticationFailed: Status.UNAUTHENTICATED,
    errors.ClusterAccessDenied: Status.FORBIDDEN,
    errors.GroupAccessDenied: Status.FORBIDDEN,
    errors.TopicAccessDenied: Status.FORBIDDEN,
    errors.GroupNotFound: Status.UNKNOWN,
    errors.UnknownTopic: Status.UNKNOWN,
    errors.OffsetOutOfRange: Status.OUT_OF_RANGE,
    errors.BatchTooLarge: Status.TOO_LARGE,
    errors.InvalidRecordState: Status.NOT_HELD,
    errors.PolicyViolation: Status.REFUSED,
    errors.UnknownMember: Status.REFUSED,
    errors.IllegalGeneration: Status.REFUSED,
    errors.RebalanceInProgress: Status.REFUSED,
    errors.CoordinatorLoading: Status.UNAVAILABLE,
    errors.CoordinatorNotAvailable: Status.UNAVAILABLE,
    errors.DiskFull: Status.UNAVAILABLE,
    errors.NotLeader: Status.UNAVAILABLE,
    errors.ShuttingDown: Status.UNAVAILABLE,
    errors.StorageFailed: Status.UNAVAILABLE,
}
"""What a refusal is on the wire; those not here are requests that make no sense."""


def status_of(error: Exception) -> Status:
    """Return the status that says best what is wrong."""
    return STATUSES.get(type(error), Status.MALFORMED)

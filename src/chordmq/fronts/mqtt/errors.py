"""Our errors as MQTT's reason codes."""

from chordmq import errors
from chordmq.codecs.mqtt.reasons import Reason

REASONS: dict[type[errors.ChordMQError], Reason] = {
    errors.TopicAccessDenied: Reason.NOT_AUTHORIZED,
    errors.GroupAccessDenied: Reason.NOT_AUTHORIZED,
    errors.ClusterAccessDenied: Reason.NOT_AUTHORIZED,
    errors.AuthenticationFailed: Reason.BAD_USER_NAME_OR_PASSWORD,
    errors.UnsupportedSaslMechanism: Reason.BAD_AUTHENTICATION_METHOD,
    errors.InvalidTopicName: Reason.TOPIC_NAME_INVALID,
    errors.InvalidPattern: Reason.TOPIC_FILTER_INVALID,
    errors.BatchTooLarge: Reason.PACKET_TOO_LARGE,
    errors.DiskFull: Reason.QUOTA_EXCEEDED,
    errors.PolicyViolation: Reason.QUOTA_EXCEEDED,
    errors.ShuttingDown: Reason.SERVER_SHUTTING_DOWN,
    errors.CoordinatorLoading: Reason.SERVER_BUSY,
    errors.CoordinatorNotAvailable: Reason.SERVER_UNAVAILABLE,
    errors.NotCoordinator: Reason.SERVER_BUSY,
    errors.InvalidRecord: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
    errors.InvalidRequest: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
    errors.InvalidTimestamp: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
    errors.UnknownTopic: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
}
"""What has a code of its own; everything else is UNSPECIFIED_ERROR."""

PUBLISH_REASONS = frozenset({0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
"""The refusals that PUBACK and PUBREC may carry."""
SUBSCRIBE_REASONS = frozenset({0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
"""The refusals that SUBACK may carry."""


def reason_of(error: errors.ChordMQError, allowed: frozenset[int] | None = None) -> Reason:
    """Return the code for an error, one of those that the packet may carry."""
    reason = REASONS.get(type(error), Reason.UNSPECIFIED_ERROR)
    if allowed is not None and reason not in allowed:
        return Reason.IMPLEMENTATION_SPECIFIC_ERROR
    return reason

"""Our errors as status codes of gRPC."""

from typing import Any

import grpc

from chordmq import errors
from chordmq.errors import ChordMQError

NAME_KEY = "chordmq-error"
"""The trailing metadata that has an error's own name."""

_CODES: dict[type[ChordMQError], grpc.StatusCode] = {
    errors.AuthenticationFailed: grpc.StatusCode.UNAUTHENTICATED,
    errors.TopicAccessDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.GroupAccessDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.ClusterAccessDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.UnknownTopic: grpc.StatusCode.NOT_FOUND,
    errors.UnknownTopicId: grpc.StatusCode.NOT_FOUND,
    errors.GroupNotFound: grpc.StatusCode.NOT_FOUND,
    errors.TopicExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.OffsetOutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.PolicyViolation: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TopicDeletionDisabled: grpc.StatusCode.FAILED_PRECONDITION,
    errors.InvalidRecordState: grpc.StatusCode.FAILED_PRECONDITION,
    errors.GroupNotEmpty: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnknownMember: grpc.StatusCode.FAILED_PRECONDITION,
    errors.IllegalGeneration: grpc.StatusCode.FAILED_PRECONDITION,
    errors.MutationQuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DiskFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StorageFailed: grpc.StatusCode.UNAVAILABLE,
    errors.NotLeader: grpc.StatusCode.UNAVAILABLE,
    errors.CoordinatorLoading: grpc.StatusCode.UNAVAILABLE,
    errors.CoordinatorNotAvailable: grpc.StatusCode.UNAVAILABLE,
    errors.ShuttingDown: grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: ChordMQError) -> grpc.StatusCode:
    """Return the status of an error; what is wrong with a request itself is an invalid argument."""
    return _CODES.get(type(error), grpc.StatusCode.INVALID_ARGUMENT)


async def abort(context: Any, error: ChordMQError) -> None:
    """End a call with an error."""
    metadata = ((NAME_KEY, type(error).__name__),)
    await context.abort(code_of(error), str(error), metadata)

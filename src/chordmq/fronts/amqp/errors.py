"""Our errors as the reply codes of AMQP 0-9-1, and whether they end a channel or the connection."""

from chordmq import errors
from chordmq.errors import ChordMQError

NAMES = {
    200: "OK",
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    320: "CONNECTION_FORCED",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
SOFT_MAX = 499
"""Codes above it end the connection, others only the channel."""
TEXT_BYTES_MAX = 250

CODES: dict[type[ChordMQError], int] = {
    errors.UnknownQueue: 404,
    errors.UnknownExchange: 404,
    errors.UnknownTopic: 404,
    errors.QueueLocked: 405,
    errors.DeclaredOtherwise: 406,
    errors.InvalidRequest: 406,
    errors.InvalidSetting: 406,
    errors.InvalidTopicName: 406,
    errors.BatchTooLarge: 406,
    errors.TopicAccessDenied: 403,
    errors.GroupAccessDenied: 403,
    errors.ClusterAccessDenied: 403,
    errors.PolicyViolation: 403,
    errors.AuthenticationFailed: 403,
    errors.DiskFull: 506,
    errors.StorageFailed: 506,
    errors.ShuttingDown: 320,
    errors.CoordinatorLoading: 320,
    errors.CoordinatorNotAvailable: 320,
}


class Fault(Exception):
    """What ends a channel or a connection, with its reply code and the method that caused it."""

    def __init__(self, code: int, text: str, method: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.method = method

    @property
    def is_soft(self) -> bool:
        """Return whether it ends the channel only."""
        return self.code <= SOFT_MAX and self.code != 320

    @property
    def text(self) -> str:
        """Return what the client is told: the name of the code, then why."""
        text = f"{NAMES[self.code]} - {self}".encode()[:TEXT_BYTES_MAX]
        return text.decode(errors="ignore")


def fault_of(error: ChordMQError, method: int = 0) -> Fault:
    """Return an error of ours as a fault."""
    return Fault(CODES.get(type(error), 541), str(error), method)

"""What a client can be told: every failure of the SDK, each with what Kafka calls it.

ClientError
 +-- CannotConnect       nobody answers at the address
 +-- ConnectionLost      the connection broke while an answer was awaited: the outcome is unknown
 +-- RequestTimedOut     no answer in time: the outcome is unknown
 +-- ProtocolMismatch    the peer does not speak a version, or a protocol, that we do
 +-- ServerNotProved     the broker asks for a password that it does not know itself
 +-- DeliveryTimedOut    a record could not be delivered in its time
 +-- CannotDecrypt       a record was encrypted with another key, or tampered with
 +-- Closed              the producer or consumer was closed already
 +-- BrokerRefused       the broker answered with an error code
"""

from chordmq.client.codes import RETRIABLE, name_of


class ClientError(Exception):
    """A failure of the client or an answer that refuses its request."""

    retriable = False


class CannotConnect(ClientError):
    """Nobody answers at the address."""

    retriable = True


class ConnectionLost(ClientError):
    """The connection broke while an answer was awaited; the outcome is unknown."""

    retriable = True


class RequestTimedOut(ClientError):
    """No answer came in time; the outcome is unknown."""

    retriable = True


class ProtocolMismatch(ClientError):
    """The peer speaks no version of a request that we do, or another protocol altogether."""


class ServerNotProved(ClientError):
    """The broker did not prove who it is in a login where it should."""


class DeliveryTimedOut(ClientError):
    """A record could not be delivered within its time; whether it is stored is unknown."""


class CannotDecrypt(ClientError):
    """A record was encrypted with a key that we do not have, was tampered with, or is plain."""


class Closed(ClientError):
    """The producer, consumer or cluster was closed already."""


class BrokerRefused(ClientError):
    """The broker answered with an error code."""

    def __init__(self, code: int, subject: str, detail: str | None = None) -> None:
        self.code = code
        self.name = name_of(code)
        self.subject = subject
        self.detail = detail
        super().__init__(f"{subject}: {self.name} ({code})" + (f": {detail}" if detail else ""))

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Return whether the same request may succeed later."""
        return self.code in RETRIABLE


def check(code: int, subject: str, detail: str | None = None) -> None:
    """Raise BrokerRefused unless the code says that all is well."""
    if code:
        raise BrokerRefused(code, subject, detail)

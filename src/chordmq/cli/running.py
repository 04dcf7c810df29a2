"""Runs a command's asynchronous part and turns its failures into one line and an exit status."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from chordmq.cli.exits import EXIT_CANNOT_CONNECT, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.output import fail

T = TypeVar("T")

ADVICE = {
    "CannotConnect": "Is a node running there? Start one with `chordmq up`, "
    "or name another with --bootstrap.",
    "ConnectionLost": "A broker does so when it wants a login (--user) or TLS (--tls-ca).",
    "SASL_AUTHENTICATION_FAILED": "Check --user, --password and --mechanism.",
    "UNKNOWN_TOPIC_OR_PARTITION": "`chordmq topics list` shows what there is.",
    "TOPIC_ALREADY_EXISTS": "Delete it first, or add --if-not-exists.",
    "GROUP_ID_NOT_FOUND": "`chordmq groups list` shows what there is.",
    "NON_EMPTY_GROUP": "Stop its consumers first.",
    "UNKNOWN_MEMBER_ID": "The group has members; stop its consumers first.",
    "MESSAGE_TOO_LARGE": "Send smaller records, or raise the topic's max.message.bytes.",
    "INVALID_REPLICATION_FACTOR": "Ask for no more replicas than there are nodes.",
}


def run(work: Coroutine[Any, Any, T], *, as_json: bool = False) -> T:
    """Run to the end and return the result, or end the command as its failure demands."""
    import uvloop

    from chordmq.client.errors import BrokerRefused, CannotConnect, ClientError

    try:
        return uvloop.run(work)
    except CannotConnect as error:
        message = f"{error}. {ADVICE['CannotConnect']}"
        fail(message, EXIT_CANNOT_CONNECT, as_json=as_json, name="CANNOT_CONNECT")
    except BrokerRefused as error:
        facts = {"name": error.name, "code": error.code}
        fail(advised(str(error), error.name), EXIT_REFUSED, as_json=as_json, **facts)
    except ClientError as error:
        name = type(error).__name__
        fail(advised(str(error), name), EXIT_REFUSED, as_json=as_json, name=name)
    except ValueError as error:
        fail(str(error), EXIT_USAGE, as_json=as_json, name="USAGE")
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED, as_json=as_json, name="INTERRUPTED")


def advised(message: str, name: str) -> str:
    """Add what to do about it, where that is known."""
    return f"{message.rstrip('.')}. {ADVICE[name]}" if name in ADVICE else message

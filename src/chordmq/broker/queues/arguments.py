"""What a queue is told when it is declared: limits, times to live, dead letters, priorities."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chordmq.dataclass import dataclass
from chordmq.errors import DeclaredOtherwise, InvalidRequest

PRIORITIES_MAX = 255
QUORUM_DELIVERY_LIMIT = 20
STREAM = "stream"

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """How a queue treats its messages; None means no limit."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    length_max: int | None = None
    bytes_max: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    priority_max: int = 0
    single_active: bool = False
    delivery_limit: int | None = None
    type: str = "classic"
    start: str | int | None = None
    """Where it begins in a topic that was there before: first, last, next or an offset."""


def read_rules(arguments: Arguments) -> QueueRules:
    """Return the rules in a declaration's arguments; raise InvalidRequest for a wrong one."""
    if arguments.get("x-queue-type") == STREAM:
        return QueueRules(type=STREAM)  # its limits are those of its topic
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        known = _KNOWN.get(name)
        if known is not None:
            field, check = known
            values[field] = check(name, value)
    if values.get("type") == "quorum":
        values.setdefault("delivery_limit", QUORUM_DELIVERY_LIMIT)
    if values.get("delivery_limit") == -1:
        values["delivery_limit"] = None
    if "dead_letter_key" in values and "dead_letter_exchange" not in values:
        raise InvalidRequest(
            "invalid arg 'x-dead-letter-routing-key': there is no x-dead-letter-exchange"
        )
    return QueueRules(**values)


def _number(name: str, value: Any, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"invalid arg '{name}': it takes a whole number, not {value!r}")
    if value < least:
        raise InvalidRequest(f"invalid arg '{name}': {value} is less than {least}")
    return value


def _positive(name: str, value: Any) -> int:
    return _number(name, value, least=1)


def _limit(name: str, value: Any) -> int:
    return _number(name, value, least=-1)


def _priority(name: str, value: Any) -> int:
    if _number(name, value) > PRIORITIES_MAX:
        raise InvalidRequest(f"invalid arg '{name}': {value} is more than {PRIORITIES_MAX}")
    return int(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"invalid arg '{name}': it takes a text, not {value!r}")
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"invalid arg '{name}': it takes true or false, not {value!r}")
    return value


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise InvalidRequest(f"invalid arg '{name}': {value!r} is none of {', '.join(choices)}")
        return str(value)

    return check


def _start(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        return _one_of("first", "last", "next")(name, value)
    return _number(name, value)


_KNOWN: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "x-message-ttl": ("message_ttl_ms", _number),
    "x-expires": ("expires_ms", _positive),
    "x-max-length": ("length_max", _number),
    "x-max-length-bytes": ("bytes_max", _number),
    "x-overflow": ("overflow", _one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    "x-dead-letter-exchange": ("dead_letter_exchange", _text),
    "x-dead-letter-routing-key": ("dead_letter_key", _text),
    "x-max-priority": ("priority_max", _priority),
    "x-single-active-consumer": ("single_active", _truth),
    "x-delivery-limit": ("delivery_limit", _limit),
    "x-queue-type": ("type", _one_of("classic", "quorum", STREAM)),
    "x-stream-offset": ("start", _start),
}


def check_alike(kind: str, wanted: Any, there: Any, fields: Iterable[str]) -> None:
    """Raise DeclaredOtherwise unless what is asked for has the same fields as what is there."""
    for name in fields:
        asked, has = getattr(wanted, name), getattr(there, name)
        if asked != has:
            raise DeclaredOtherwise(
                f"inequivalent arg '{name}' for {kind} '{wanted.name}': "
                f"received {asked!r} but current is {has!r}"
            )

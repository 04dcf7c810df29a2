"""What both sides tell each other in AMQP 1.0: performatives, and the composite values in them.

Each class has its fields in the order of the specification, with the kind of each.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

from chordmq.codecs.amqp1 import values
from chordmq.codecs.amqp1.values import NULL, Described, Symbol
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

SENDER, RECEIVER = False, True
"""The role of whoever speaks."""
SETTLED, MIXED = 1, 2
"""The sender's settle modes besides unsettled."""


class Kind(NamedTuple):
    """How a field is checked and written."""

    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]


def _checked(kind: type, write: Callable[[Any], bytes], top: int | None = None) -> Kind:
    def read(value: Any) -> Any:
        is_kind = type(value) is kind if kind in (int, bool) else isinstance(value, kind)
        if not is_kind or (top is not None and not 0 <= value <= top):
            raise DecodeError(f"{value!r:.60} is not what a field takes")
        return value

    return Kind(read, write)


def _read_symbols(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, Symbol) for one in found):
        raise DecodeError(f"{value!r:.60} are no symbols")
    return tuple(found)


BOOLEAN = _checked(bool, values.boolean)
UBYTE = _checked(int, values.ubyte, 2**8 - 1)
USHORT = _checked(int, values.ushort, 2**16 - 1)
UINT = _checked(int, values.uint, 2**32 - 1)
ULONG = _checked(int, values.ulong, 2**64 - 1)
TEXT = _checked(str, values.text)
SYMBOL = _checked(Symbol, values.symbol)
BINARY = _checked(bytes, values.binary)
MAP = _checked(dict, values.mapping)
SYMBOLS = Kind(_read_symbols, values.symbols)
ANY = Kind(lambda value: value, values.write_value)


class Field(NamedTuple):
    """One field of a composite."""

    name: str
    kind: Kind
    is_needed: bool
    default: Any


_LAYOUTS: dict[type, list[Field]] = {}


def layout(kind: type[Any]) -> list[Field]:
    """Return the fields of a composite in their order."""
    found = _LAYOUTS.get(kind)
    if found is None:
        hints = get_type_hints(kind, include_extras=True)
        found = _LAYOUTS[kind] = [
            Field(one.name, hints[one.name].__metadata__[0], one.default is MISSING, one.default)
            for one in fields(kind)
        ]
    return found


class Composite:
    """A list of fields with a descriptor."""

    code: ClassVar[int]
    name: ClassVar[str]

    def to_bytes(self) -> bytes:
        """Return it as a described list."""
        parts = []
        for name, kind, _, default in layout(type(self)):
            value = getattr(self, name)
            parts.append(NULL if value is None or value is default else kind.write(value))
        return values.described(self.code, values.items(parts))


def from_items(kind: type[Any], items: Any) -> Any:
    """Return a composite with such fields; raise DecodeError if they are not its own."""
    own = layout(kind)
    if not isinstance(items, list) or len(items) > len(own):
        raise DecodeError(f"{kind.__name__} does not have such fields")
    given = {
        one.name: one.kind.read(value)
        for one, value in zip(own, items, strict=False)
        if value is not None
    }
    try:
        return kind(**given)
    except TypeError:
        missing = [one.name for one in own if one.is_needed and one.name not in given]
        raise DecodeError(f"{kind.__name__} needs {', '.join(missing)}") from None


def to_composite(value: Any) -> Any:
    """Return a described value as the composite that it is; None if it is none."""
    if not isinstance(value, Described):
        return None
    kind = BY_CODE.get(value.descriptor) or BY_NAME.get(value.descriptor)
    return None if kind is None else from_items(kind, value.value)


def one_of(*kinds: str) -> Kind:
    """Return the kind of a field that takes some composites."""

    def read(value: Any) -> Any:
        found = to_composite(value)
        if type(found).__name__ not in kinds:
            raise DecodeError(f"{value!r:.60} is not what a field takes")
        return found

    return Kind(read, lambda value: bytes(value.to_bytes()))


ERROR = one_of("Error")
SOURCE = one_of("Source")
TARGET = one_of("Target", "Coordinator")
OUTCOMES = ("Accepted", "Rejected", "Released", "Modified")
OUTCOME = one_of(*OUTCOMES)
STATE = one_of("Received", *OUTCOMES, "Declared", "TransactionalState")


@dataclass(slots=True, kw_only=True)
class Error(Composite):
    """Why something ends or is refused."""

    code, name = 0x1D, "amqp:error:list"
    condition: Annotated[str, SYMBOL]
    description: Annotated[str | None, TEXT] = None
    info: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Received(Composite):
    """How much of a message has come."""

    code, name = 0x23, "amqp:received:list"
    section_number: Annotated[int, UINT]
    section_offset: Annotated[int, ULONG]


@dataclass(slots=True, kw_only=True)
class Accepted(Composite):
    """The message is processed."""

    code, name = 0x24, "amqp:accepted:list"


@dataclass(slots=True, kw_only=True)
class Rejected(Composite):
    """The message cannot be processed by anybody."""

    code, name = 0x25, "amqp:rejected:list"
    error: Annotated[Error | None, ERROR] = None


@dataclass(slots=True, kw_only=True)
class Released(Composite):
    """The message was not tried, and may go to anybody."""

    code, name = 0x26, "amqp:released:list"


@dataclass(slots=True, kw_only=True)
class Modified(Composite):
    """The message goes back, with what is to be changed."""

    code, name = 0x27, "amqp:modified:list"
    delivery_failed: Annotated[bool, BOOLEAN] = False
    undeliverable_here: Annotated[bool, BOOLEAN] = False
    message_annotations: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Source(Composite):
    """Where the messages of a link come from."""

    code, name = 0x28, "amqp:source:list"
    address: Annotated[Any, ANY] = None
    durable: Annotated[int, UINT] = 0
    expiry_policy: Annotated[str | None, SYMBOL] = None
    timeout: Annotated[int, UINT] = 0
    dynamic: Annotated[bool, BOOLEAN] = False
    dynamic_node_properties: Annotated[dict[Any, Any] | None, MAP] = None
    distribution_mode: Annotated[str | None, SYMBOL] = None
    filter: Annotated[dict[Any, Any] | None, MAP] = None
    default_outcome: Annotated[Any, STATE] = None
    outcomes: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None


@dataclass(slots=True, kw_only=True)
class Target(Composite):
    """Where the messages of a link go."""

    code, name = 0x29, "amqp:target:list"
    address: Annotated[Any, ANY] = None
    durable: Annotated[int, UINT] = 0
    expiry_policy: Annotated[str | None, SYMBOL] = None
    timeout: Annotated[int, UINT] = 0
    dynamic: Annotated[bool, BOOLEAN] = False
    dynamic_node_properties: Annotated[dict[Any, Any] | None, MAP] = None
    capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None


@dataclass(slots=True, kw_only=True)
class Coordinator(Composite):
    """The target of a link that controls transactions."""

    code, name = 0x30, "amqp:coordinator:list"
    capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None


@dataclass(slots=True, kw_only=True)
class Declare(Composite):
    """Begins a transaction."""

    code, name = 0x31, "amqp:declare:list"
    global_id: Annotated[Any, ANY] = None


@dataclass(slots=True, kw_only=True)
class Discharge(Composite):
    """Ends a transaction: what was done in it counts, or never happened."""

    code, name = 0x32, "amqp:discharge:list"
    txn_id: Annotated[bytes, BINARY]
    fail: Annotated[bool, BOOLEAN] = False


@dataclass(slots=True, kw_only=True)
class Declared(Composite):
    """The transaction has begun."""

    code, name = 0x33, "amqp:declared:list"
    txn_id: Annotated[bytes, BINARY]


@dataclass(slots=True, kw_only=True)
class TransactionalState(Composite):
    """What is done in a transaction: a message is sent, or has an outcome."""

    code, name = 0x34, "amqp:transactional-state:list"
    txn_id: Annotated[bytes, BINARY]
    outcome: Annotated[Any, OUTCOME] = None


@dataclass(slots=True, kw_only=True)
class Open(Composite):
    """Begins a connection."""

    code, name = 0x10, "amqp:open:list"
    container_id: Annotated[str, TEXT]
    hostname: Annotated[str | None, TEXT] = None
    max_frame_size: Annotated[int, UINT] = 2**32 - 1
    channel_max: Annotated[int, USHORT] = 2**16 - 1
    idle_time_out: Annotated[int | None, UINT] = None
    outgoing_locales: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    incoming_locales: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    offered_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    desired_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    properties: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Begin(Composite):
    """Begins a session."""

    code, name = 0x11, "amqp:begin:list"
    remote_channel: Annotated[int | None, USHORT] = None
    next_outgoing_id: Annotated[int, UINT]
    incoming_window: Annotated[int, UINT]
    outgoing_window: Annotated[int, UINT]
    handle_max: Annotated[int, UINT] = 2**32 - 1
    offered_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    desired_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    properties: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Attach(Composite):
    """Begins a link."""

    code, name = 0x12, "amqp:attach:list"
    link_name: Annotated[str, TEXT]
    handle: Annotated[int, UINT]
    role: Annotated[bool, BOOLEAN]
    snd_settle_mode: Annotated[int, UBYTE] = MIXED
    rcv_settle_mode: Annotated[int, UBYTE] = 0
    source: Annotated[Source | None, SOURCE] = None
    target: Annotated[Target | Coordinator | None, TARGET] = None
    unsettled: Annotated[dict[Any, Any] | None, MAP] = None
    incomplete_unsettled: Annotated[bool, BOOLEAN] = False
    initial_delivery_count: Annotated[int | None, UINT] = None
    max_message_size: Annotated[int | None, ULONG] = None
    offered_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    desired_capabilities: Annotated[tuple[str, ...] | None, SYMBOLS] = None
    properties: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Flow(Composite):
    """Says how much may be sent."""

    code, name = 0x13, "amqp:flow:list"
    next_incoming_id: Annotated[int | None, UINT] = None
    incoming_window: Annotated[int, UINT]
    next_outgoing_id: Annotated[int, UINT]
    outgoing_window: Annotated[int, UINT]
    handle: Annotated[int | None, UINT] = None
    delivery_count: Annotated[int | None, UINT] = None
    link_credit: Annotated[int | None, UINT] = None
    available: Annotated[int | None, UINT] = None
    drain: Annotated[bool, BOOLEAN] = False
    echo: Annotated[bool, BOOLEAN] = False
    properties: Annotated[dict[Any, Any] | None, MAP] = None


@dataclass(slots=True, kw_only=True)
class Transfer(Composite):
    """Carries a message, or a part of one."""

    code, name = 0x14, "amqp:transfer:list"
    handle: Annotated[int, UINT]
    delivery_id: Annotated[int | None, UINT] = None
    delivery_tag: Annotated[bytes | None, BINARY] = None
    message_format: Annotated[int | None, UINT] = None
    settled: Annotated[bool | None, BOOLEAN] = None
    more: Annotated[bool, BOOLEAN] = False
    rcv_settle_mode: Annotated[int | None, UBYTE] = None
    state: Annotated[Any, STATE] = None
    resume: Annotated[bool, BOOLEAN] = False
    aborted: Annotated[bool, BOOLEAN] = False
    batchable: Annotated[bool, BOOLEAN] = False


@dataclass(slots=True, kw_only=True)
class Disposition(Composite):
    """Says what has become of messages."""

    code, name = 0x15, "amqp:disposition:list"
    role: Annotated[bool, BOOLEAN]
    first: Annotated[int, UINT]
    last: Annotated[int | None, UINT] = None
    settled: Annotated[bool, BOOLEAN] = False
    state: Annotated[Any, STATE] = None
    batchable: Annotated[bool, BOOLEAN] = False


@dataclass(slots=True, kw_only=True)
class Detach(Composite):
    """Ends a link."""

    code, name = 0x16, "amqp:detach:list"
    handle: Annotated[int, UINT]
    closed: Annotated[bool, BOOLEAN] = False
    error: Annotated[Error | None, ERROR] = None


@dataclass(slots=True, kw_only=True)
class End(Composite):
    """Ends a session."""

    code, name = 0x17, "amqp:end:list"
    error: Annotated[Error | None, ERROR] = None


@dataclass(slots=True, kw_only=True)
class Close(Composite):
    """Ends a connection."""

    code, name = 0x18, "amqp:close:list"
    error: Annotated[Error | None, ERROR] = None


@dataclass(slots=True, kw_only=True)
class SaslMechanisms(Composite):
    """The ways to log in."""

    code, name = 0x40, "amqp:sasl-mechanisms:list"
    mechanisms: Annotated[tuple[str, ...], SYMBOLS]


@dataclass(slots=True, kw_only=True)
class SaslInit(Composite):
    """Begins a login."""

    code, name = 0x41, "amqp:sasl-init:list"
    mechanism: Annotated[str, SYMBOL]
    initial_response: Annotated[bytes | None, BINARY] = None
    hostname: Annotated[str | None, TEXT] = None


@dataclass(slots=True, kw_only=True)
class SaslChallenge(Composite):
    """What the client has to answer."""

    code, name = 0x42, "amqp:sasl-challenge:list"
    challenge: Annotated[bytes, BINARY]


@dataclass(slots=True, kw_only=True)
class SaslResponse(Composite):
    """The client's answer."""

    code, name = 0x43, "amqp:sasl-response:list"
    response: Annotated[bytes, BINARY]


@dataclass(slots=True, kw_only=True)
class SaslOutcome(Composite):
    """Whether the login was good."""

    code, name = 0x44, "amqp:sasl-outcome:list"
    outcome: Annotated[int, UBYTE]
    additional_data: Annotated[bytes | None, BINARY] = None


SASL = (SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome)
PERFORMATIVES = (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close, *SASL)
_TRANSACTIONS = (Coordinator, Declare, Discharge, Declared, TransactionalState)
_PARTS = (Error, Received, Accepted, Rejected, Released, Modified, Source, Target, *_TRANSACTIONS)

BY_CODE: dict[Any, type[Composite]] = {one.code: one for one in (*PERFORMATIVES, *_PARTS)}
BY_NAME: dict[Any, type[Composite]] = {one.name: one for one in (*PERFORMATIVES, *_PARTS)}

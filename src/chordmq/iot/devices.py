"""Devices: the names of their messages, who sends which, and what is known of a device (pure).

iotsphere/devices/{id}/telemetry/{name}          iotsphere/devices/{id}/status
iotsphere/devices/{id}/events/{name}             iotsphere/devices/{id}/presence
iotsphere/devices/{id}/measures/{name}
iotsphere/devices/{id}/shadow/get|update|delete  …/accepted, …/rejected, shadow/update/delta
iotsphere/devices/{id}/shadow/name/{name}/get|update|delete  and the same
iotsphere/devices/{id}/commands/{name}/issue|cancel|request|response|status
"""

import re
from enum import Enum
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRequest
from chordmq.iot.envelope import MessageType

ROOT = "iotsphere/devices"
LEVELS_BEFORE_ID = ROOT.count("/") + 1
ID_LENGTH_MAX = 128
NAMES_REMEMBERED = 10_000
PLACE = "{name}"

_ID = re.compile(rf"[^/+#\x00-\x1f\x7f\ud800-\udfff]{{1,{ID_LENGTH_MAX}}}")


class Sender(Enum):
    """Who a message comes from."""

    DEVICE = "device"
    CLIENT = "client"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a message of a device is about, which type it has, and who sends it."""

    path: str
    """The levels behind the device's id; `{name}` stands for one or, at the end, for several."""
    type: MessageType
    sender: Sender


TELEMETRY = Subject("telemetry/{name}", MessageType.EVENT, Sender.DEVICE)
MEASURE = Subject("measures/{name}", MessageType.EVENT, Sender.NODE)
EVENT = Subject("events/{name}", MessageType.EVENT, Sender.DEVICE)
STATUS = Subject("status", MessageType.NOTIFICATION, Sender.DEVICE)
PRESENCE = Subject("presence", MessageType.NOTIFICATION, Sender.NODE)
REGISTER = Subject("register", MessageType.COMMAND, Sender.CLIENT)
FORGET = Subject("forget", MessageType.COMMAND, Sender.CLIENT)
SHADOW_GET = Subject("shadow/get", MessageType.COMMAND, Sender.CLIENT)
SHADOW_UPDATE = Subject("shadow/update", MessageType.COMMAND, Sender.CLIENT)
SHADOW_DELETE = Subject("shadow/delete", MessageType.COMMAND, Sender.CLIENT)
SHADOW_DELTA = Subject("shadow/update/delta", MessageType.NOTIFICATION, Sender.NODE)
NAMED_SHADOW = "shadow/name"
NAMED_SUBJECTS = {
    one: Subject(one.path.replace("shadow", f"{NAMED_SHADOW}/{PLACE}", 1), one.type, one.sender)
    for one in (SHADOW_GET, SHADOW_UPDATE, SHADOW_DELETE, SHADOW_DELTA)
}
"""What is said of a shadow with a name, by what is said of the one without."""
SHADOW_SUBJECTS = (
    SHADOW_GET, SHADOW_UPDATE, SHADOW_DELETE,
    *(NAMED_SUBJECTS[one] for one in (SHADOW_GET, SHADOW_UPDATE, SHADOW_DELETE)),
)  # fmt: skip
NAMED_SHADOW_GET = NAMED_SUBJECTS[SHADOW_GET]
NAMED_SHADOW_UPDATE = NAMED_SUBJECTS[SHADOW_UPDATE]
NAMED_SHADOW_DELETE = NAMED_SUBJECTS[SHADOW_DELETE]
NAMED_SHADOW_DELTA = NAMED_SUBJECTS[SHADOW_DELTA]
COMMAND_ISSUE = Subject("commands/{name}/issue", MessageType.COMMAND, Sender.CLIENT)
COMMAND_CANCEL = Subject("commands/{name}/cancel", MessageType.COMMAND, Sender.CLIENT)
COMMAND_REQUEST = Subject("commands/{name}/request", MessageType.COMMAND, Sender.NODE)
COMMAND_RESPONSE = Subject("commands/{name}/response", MessageType.RESPONSE, Sender.DEVICE)
COMMAND_STATUS = Subject("commands/{name}/status", MessageType.NOTIFICATION, Sender.NODE)

ACCEPTED = {
    asked: Subject(f"{asked.path}/accepted", MessageType.RESPONSE, Sender.NODE)
    for asked in (REGISTER, FORGET, *SHADOW_SUBJECTS)
}
REJECTED = {
    asked: Subject(f"{asked.path}/rejected", MessageType.RESPONSE, Sender.NODE)
    for asked in (*ACCEPTED, COMMAND_ISSUE, COMMAND_CANCEL)
}
SUBJECTS = (
    TELEMETRY, MEASURE, EVENT, STATUS, PRESENCE, REGISTER, FORGET,
    SHADOW_GET, SHADOW_UPDATE, SHADOW_DELETE, SHADOW_DELTA,
    COMMAND_ISSUE, COMMAND_CANCEL, COMMAND_REQUEST, COMMAND_RESPONSE, COMMAND_STATUS,
    *NAMED_SUBJECTS.values(), *ACCEPTED.values(), *REJECTED.values(),
)  # fmt: skip


class Address(NamedTuple):
    """Which device a message is of, and what it is about."""

    device: str
    subject: Subject
    name: str = ""
    """Of a measure, an event, a command or a shadow."""

    def __str__(self) -> str:
        return f"{ROOT}/{self.device}/{self.subject.path.replace(PLACE, self.name)}"


_FIXED = {one.path: one for one in SUBJECTS if PLACE not in one.path}
_OPEN = {one.path.partition("/")[0]: one for one in (TELEMETRY, MEASURE, EVENT)}
_NAMED = {tuple(one.path.split(f"/{PLACE}/")): one for one in SUBJECTS if f"/{PLACE}/" in one.path}


@lru_cache(maxsize=NAMES_REMEMBERED)
def parse(name: str) -> Address | None:
    """Return whose message has this name, and what it is about; None if it is no device's."""
    levels = name.split("/", LEVELS_BEFORE_ID + 1)
    if len(levels) < LEVELS_BEFORE_ID + 2 or "/".join(levels[:LEVELS_BEFORE_ID]) != ROOT:
        return None
    device, path = levels[LEVELS_BEFORE_ID:]
    if not _ID.fullmatch(device):
        return None
    if path in _FIXED:
        return Address(device, _FIXED[path])
    first, _, rest = path.partition("/")
    if first in _OPEN and rest:
        return Address(device, _OPEN[first], rest)
    if path.startswith(f"{NAMED_SHADOW}/"):
        first, rest = NAMED_SHADOW, path.removeprefix(f"{NAMED_SHADOW}/")
    inner, _, last = rest.partition("/")
    subject = _NAMED.get((first, last))
    return Address(device, subject, inner) if subject is not None and inner else None


def check_id(device: str) -> str:
    """Return the id of a device, or raise InvalidRequest if none can have it."""
    if not _ID.fullmatch(device):
        raise InvalidRequest(
            f"{device[:40]!r} is no id of a device: 1 to {ID_LENGTH_MAX} characters without / + #"
        )
    return device


def shadow_place(device: str, name: str) -> str:
    """Return under what a device's shadow is kept: the device, and the name if it has one."""
    return f"{device}/{name}" if name else device


def check_shadow_name(name: str) -> str:
    """Return the name of a shadow, or raise InvalidRequest if none can have it."""
    if name and not _ID.fullmatch(name):
        raise InvalidRequest(f"{name[:40]!r} is no name of a shadow")
    return name


def check_command_name(name: str) -> str:
    """Return the name of a command, or raise InvalidRequest if none can have it."""
    if not _ID.fullmatch(name):
        raise InvalidRequest(f"{name[:40]!r} is no name of a command")
    return name


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people say of a device."""

    model: Annotated[str, Meta(max_length=200)] = ""
    tags: Annotated[
        dict[Annotated[str, Meta(max_length=100)], Annotated[str, Meta(max_length=200)]],
        Meta(max_length=50),
    ] = {}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one device."""

    id: str
    model: str = ""
    tags: dict[str, str] = {}
    registered_ms: int
    """When it was first heard or told of."""
    seen_ms: int = 0
    """When it last sent something, as far as that is stored."""
    is_connected: bool = False
    changed_ms: int = 0
    """When it came or went."""
    node: int = -1
    """The node that it is, or was, connected to."""
    status: str = ""
    """What it, or its will, last said of itself."""

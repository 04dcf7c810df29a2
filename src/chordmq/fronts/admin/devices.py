"""Devices over HTTP: who there is, their shadows, and commands to them.

What changes a device is sent as a message like everybody else's; the answer is what came of it.
"""

import uuid
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.principal import ANONYMOUS
from chordmq.errors import StaleVersion, UnknownDevice
from chordmq.fronts.admin.api import Api, as_json
from chordmq.fronts.admin.call import JSON, Call
from chordmq.iot import devices as subjects
from chordmq.iot.commands import Command, Issue
from chordmq.iot.desk import shown
from chordmq.iot.devices import (
    Address,
    Device,
    Registration,
    check_command_name,
    check_id,
    check_shadow_name,
)
from chordmq.iot.shadow import Document, Shadow, Update

WAIT_MS_MAX = 60_000
SOURCE = "http"


class DeviceList(msgspec.Struct, frozen=True):
    """Devices in the order of their ids."""

    devices: list[Device]
    next: str | None
    """Where the next page begins; none if this is the last."""


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which devices to show."""

    after: Annotated[str, Meta(description="Ids behind this one.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    connected: Annotated[bool, Meta(description="Only those that are, or are not.")] | None = None
    model: str | None = None


class ShadowView(msgspec.Struct, frozen=True):
    """Both sides of a shadow and their difference, and who changed what when."""

    state: dict[str, Document]
    metadata: dict[str, Document]
    version: int
    timestamp: int


class Conflict(msgspec.Struct, frozen=True):
    """Why a change is refused, and what the shadow is now."""

    error: str
    message: str
    version: int
    shadow: ShadowView


class ShadowQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which shadow: the one without a name, or one that has this name."""

    name: str = ""


class DeletionQuery(ShadowQuery, frozen=True, kw_only=True):
    """Which shadow, and the version that it must have."""

    version: int | None = None


class NewCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a device is to do; the same id again is the same command."""

    name: str
    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    parameters: Any = None
    timeout_ms: Annotated[int, Meta(ge=1, le=30 * 24 * 3600 * 1000)] | None = None
    retry_ms: Annotated[int, Meta(ge=10)] | None = None
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] | None = None


class WaitQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How long to wait for the end of the command."""

    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0


class Commands(msgspec.Struct, frozen=True):
    """Commands in the order in which they were issued."""

    commands: list[Command]


async def list_devices(call: Call, query: ListQuery) -> DeviceList:
    """Show devices: what is known of them, and whether they are connected."""
    _check(call, Operation.READ)
    known = call.shared.devices().desk.devices
    found = [
        known[name]
        for name in sorted(name for name in known if name > query.after)
        if query.connected in (None, known[name].is_connected)
        and query.model in (None, known[name].model)
    ]
    page = found[: query.limit]
    return DeviceList(page, page[-1].id if len(found) > len(page) else None)


async def show_device(call: Call) -> Device:
    """Show what is known of a device."""
    _check(call, Operation.READ)
    return call.shared.devices().desk.device(call.path("device"))


async def register_device(call: Call, body: Registration) -> Device:
    """Say what a device is; one that is not known yet is known from now on."""
    device: Device = await _ask(call, subjects.REGISTER, body)
    return device


async def forget_device(call: Call) -> None:
    """Forget a device, its shadow and its commands."""
    await _ask(call, subjects.FORGET, {})


async def show_shadow(call: Call, query: ShadowQuery) -> ShadowView:
    """Show a shadow of a device: the one without a name, or one with."""
    _check(call, Operation.READ)
    device = call.path("device")
    found = _shadow(call, query)
    if found.is_deleted:
        raise UnknownDevice(f"{device[:100]!r} has no such shadow")
    return _view(found)


async def update_shadow(call: Call, query: ShadowQuery, body: Update) -> Any:
    """Change fields of a shadow: null deletes one; a conflict answers with what it is now."""
    subject = subjects.NAMED_SHADOW_UPDATE if query.name else subjects.SHADOW_UPDATE
    name = check_shadow_name(query.name)
    try:
        found: Shadow = await _ask(call, subject, body, name)
    except StaleVersion as error:
        now = _shadow(call, query)
        conflict = Conflict(type(error).__name__, str(error), now.version, _view(now))
        return as_json(conflict, HTTPStatus.CONFLICT)
    return _view(found)


async def delete_shadow(call: Call, query: DeletionQuery) -> None:
    """Delete a shadow; its version goes on, so that nobody with an old one can write."""
    subject = subjects.NAMED_SHADOW_DELETE if query.name else subjects.SHADOW_DELETE
    await _ask(call, subject, {"version": query.version}, check_shadow_name(query.name))


def _shadow(call: Call, query: ShadowQuery) -> Shadow:
    place = subjects.shadow_place(call.path("device"), query.name)
    return call.shared.devices().desk.shadows.get(place) or Shadow()


async def issue_command(call: Call, query: WaitQuery, body: NewCommand) -> Command:
    """Have a device do something; wait for the end if told to."""
    issue = Issue(
        id=body.id or uuid.uuid4().hex,
        parameters=body.parameters,
        timeout_ms=body.timeout_ms,
        retry_ms=body.retry_ms,
        attempts_max=body.attempts_max,
    )
    name = check_command_name(body.name)
    command: Command = await _ask(call, subjects.COMMAND_ISSUE, issue, name)
    if not query.wait_ms:
        return command
    wait_s = query.wait_ms / 1000
    return await call.shared.devices().ended(command.device, command.id, wait_s)


async def list_commands(call: Call) -> Commands:
    """Show the commands of a device, also those that ended not long ago."""
    _check(call, Operation.READ)
    desk = call.shared.devices().desk
    device = desk.device(call.path("device"))
    found = desk.commands.get(device.id, {}).values()
    return Commands(sorted(found, key=lambda one: (one.issued_ms, one.order)))


async def show_command(call: Call, query: WaitQuery) -> Command:
    """Show how far a command is; wait for its end if told to."""
    _check(call, Operation.READ)
    wait_s = query.wait_ms / 1000
    return await call.shared.devices().ended(call.path("device"), call.path("command"), wait_s)


async def cancel_command(call: Call) -> Command:
    """Cancel a command that has not ended."""
    _check(call, Operation.WRITE)
    known = call.shared.devices().desk.command(call.path("device"), call.path("command"))
    found: Command = await _ask(call, subjects.COMMAND_CANCEL, {"id": known.id}, known.name)
    return found


async def _ask(call: Call, subject: subjects.Subject, told: object, name: str = "") -> Any:
    _check(call, Operation.WRITE)
    address = Address(check_id(call.path("device")), subject, name)
    source = SOURCE if call.principal is ANONYMOUS else call.principal.name
    return await call.shared.devices().ask(address, told, source)


def _check(call: Call, operation: Operation) -> None:
    call.check(operation, Kind.TOPIC, call.shared.devices().topic)


def _view(found: Shadow) -> ShadowView:
    return ShadowView(**shown(found))


ROUTES = [
    Api("GET", "/v1/devices", list_devices),
    Api("GET", "/v1/devices/{device}", show_device),
    Api("PUT", "/v1/devices/{device}", register_device),
    Api("DELETE", "/v1/devices/{device}", forget_device),
    Api("GET", "/v1/devices/{device}/shadow", show_shadow),
    Api(
        "PATCH",
        "/v1/devices/{device}/shadow",
        update_shadow,
        answers={HTTPStatus.OK: {JSON: ShadowView}, HTTPStatus.CONFLICT: {JSON: Conflict}},
    ),
    Api("DELETE", "/v1/devices/{device}/shadow", delete_shadow),
    Api("GET", "/v1/devices/{device}/commands", list_commands),
    Api("POST", "/v1/devices/{device}/commands", issue_command, status=HTTPStatus.CREATED),
    Api("GET", "/v1/devices/{device}/commands/{command}", show_command),
    Api("DELETE", "/v1/devices/{device}/commands/{command}", cancel_command),
]

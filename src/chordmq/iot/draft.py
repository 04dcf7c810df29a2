"""Decides what messages and the passing of time make of devices, and what is told of it (pure)."""

from collections.abc import Callable
from typing import Any

import msgspec

from chordmq.errors import (
    ChordMQError,
    InvalidEnvelope,
    InvalidRequest,
    StaleVersion,
    UnknownCommand,
    UnknownDevice,
)
from chordmq.iot import commands, devices, envelope, shadow
from chordmq.iot.commands import Command, State
from chordmq.iot.desk import Desk, Event, Refusal, Step, shown
from chordmq.iot.devices import Address, Device, Sender, Subject
from chordmq.iot.entries import COMMAND, DEVICE, SHADOW, Entry, Gone, Outgoing, ShadowOf
from chordmq.iot.messages import CORRELATION, Incoming, Message, opened, read, status_of
from chordmq.iot.normaliser import Reading, measures
from chordmq.iot.shadow import Shadow
from chordmq.records.dead_letter import obituary
from chordmq.records.record import Headers

SOURCE = "chordmq"
RESPONSE_TOPIC, EXPIRES = "response-topic", "chordmq.expires"
ONLINE, OFFLINE = "online", "offline"
ELSEWHERE = -1
"""Where a device is connected that has said so, and is not a client of the node itself."""


class Draft:
    """What the next messages and the time make of the devices, until it is stored."""

    def __init__(self, desk: Desk, now_ms: int, presence: Callable[[str], int | None]) -> None:
        self._desk = desk
        self._rules = desk.rules
        self._now_ms = now_ms
        self._presence = presence
        """Returns the node that a device is connected to."""
        self._devices: dict[str, Device | None] = {}
        self._shadows: dict[str, Shadow | None] = {}
        self._commands: dict[tuple[str, str], Command | None] = {}
        self._outgoing: list[Outgoing] = []
        self.size = 0
        """Bytes that are to be told."""
        self._answers: dict[str, Any] = {}
        self._events: list[Event] = []
        self._stirred: dict[str, None] = {}
        """Devices whose commands may have got their turn."""

    def finish(self) -> Step:
        """Send the commands whose turn has come; return all that is decided."""
        for device in self._stirred:
            self._send_next(device)
        entries: list[Entry] = [
            known or Gone(f"{DEVICE}/{device}") for device, known in self._devices.items()
        ]
        entries += (
            Gone(f"{SHADOW}/{place}") if found is None else ShadowOf(place, found)
            for place, found in self._shadows.items()
        )
        entries += (
            command or Gone(f"{COMMAND}/{'/'.join(place)}")
            for place, command in self._commands.items()
        )
        return Step(
            entries=entries, outgoing=self._outgoing, answers=self._answers, events=self._events
        )

    def receive(self, incoming: Incoming) -> None:
        """Do what a message asks for; one that cannot be understood goes to the dead letters."""
        address = devices.parse(incoming.name)
        if address is None or address.subject.sender is Sender.NODE:
            return
        try:
            message = opened(incoming)
            self._check_known(address)
        except (InvalidEnvelope, UnknownDevice) as error:
            self._bury(incoming, address, error)
            return
        handler = _HANDLERS.get(address.subject)
        if handler is None:
            return
        try:
            handler(self, address, message)
        except (InvalidRequest, InvalidEnvelope) as error:
            self._bury(incoming, address, error)
            self._reject(address, message, error)
        except ChordMQError as error:
            self._reject(address, message, error)

    def connect(self, device: str, node: int | None) -> None:
        """Take note that a device has come to a node, or has gone (None)."""
        known = self._device(device)
        if known is None or (known.is_connected, known.node) == (node is not None, node):
            return
        if node is None and (not known.is_connected or known.node == ELSEWHERE):
            return
        self._put_device(_moved(known, node, self._now_ms))
        self._tell_presence(device)

    def pass_time(self) -> None:
        """Do what is due by now: send again, let expire, forget."""
        for command in self._desk.due(self._now_ms):
            if command.state.is_final:
                self._commands[command.device, command.id] = None
                continue
            if (command.device, command.id) in self._commands:
                continue  # a message has just changed it; the next draft looks again
            after = commands.passed(command, self._now_ms)
            if after is not command:
                self._put_command(after, before=command)

    def _device(self, device: str) -> Device | None:
        if device in self._devices:
            return self._devices[device]
        return self._desk.devices.get(device)

    def _shadow(self, address: Address) -> Shadow:
        place = _place(address)
        known = self._shadows if place in self._shadows else self._desk.shadows
        return known.get(place) or Shadow()

    def _shadow_names(self, device: str) -> set[str]:
        """Return the names of a device's shadows that have one."""
        found = set(self._desk.shadow_names.get(device, ()))
        for place, after in self._shadows.items():
            of, _, name = place.partition("/")
            if of == device and name:
                (found.discard if after is None else found.add)(name)
        return found

    def _command(self, device: str, command: str) -> Command | None:
        if (device, command) in self._commands:
            return self._commands[device, command]
        return self._desk.commands.get(device, {}).get(command)

    def _open_commands(self, device: str) -> list[Command]:
        known: dict[str, Command | None] = dict(self._desk.commands.get(device, {}))
        known |= {c: found for (d, c), found in self._commands.items() if d == device}
        found = (one for one in known.values() if one is not None and not one.state.is_final)
        return sorted(found, key=lambda one: one.order)

    def _put_device(self, device: Device) -> None:
        self._devices[device.id] = device
        self._stirred[device.id] = None

    def _check_known(self, address: Address) -> None:
        """Make a device known that has sent its first message, or raise UnknownDevice."""
        if self._device(address.device) is not None or address.subject is devices.REGISTER:
            return
        if not self._rules.registers:
            raise UnknownDevice(f"nobody has registered {address.device}")
        if address.subject is not devices.FORGET:
            self._register(Device(id=address.device, registered_ms=self._now_ms))

    def _register(self, device: Device) -> None:
        node = self._presence(device.id)
        self._put_device(device if node is None else _moved(device, node, self._now_ms))

    def register(self, address: Address, message: Message) -> None:
        """Write down what people say of a device."""
        said = read(message, devices.Registration)
        known = self._device(address.device)
        if known is None:
            known = Device(id=address.device, registered_ms=self._now_ms)
            self._register(known)
        known = msgspec.structs.replace(
            self._device(address.device) or known, model=said.model, tags=said.tags
        )
        self._put_device(known)
        self._accept(address, message, known, msgspec.to_builtins(known))
        self._audit(message, "device.register", address.device)

    def forget(self, address: Address, message: Message) -> None:
        """Forget a device, its shadow and its commands."""
        if self._device(address.device) is None:
            raise UnknownDevice(f"no device {address.device!r}")
        self._devices[address.device] = None
        for name in ("", *self._shadow_names(address.device)):
            self._forget_shadow(address, name)
        for command in self._desk.commands.get(address.device, {}):
            self._commands[address.device, command] = None
        for device, command in self._commands:
            if device == address.device:
                self._commands[device, command] = None
        self._accept(address, message, None, {})
        self._audit(message, "device.forget", address.device)

    def _forget_shadow(self, address: Address, name: str) -> None:
        subject = devices.NAMED_SHADOW_UPDATE if name else devices.SHADOW_UPDATE
        place = address._replace(subject=subject, name=name)
        if self._shadow(place).version:
            self._shadows[_place(place)] = None
        self._keep_delta(place, b"")

    def normalise(self, address: Address, message: Message) -> None:
        """Tell telemetry again in common names, units and time; what makes no sense is buried."""
        if self._rules.models is None:
            return
        known = self._device(address.device)
        model = known.model if known is not None else ""
        reading = Reading(
            address.name, message.content, message.timestamp_ms or self._now_ms, model
        )
        for measure in measures(reading, self._rules.models):
            place = address._replace(subject=devices.MEASURE, name=measure.metric)
            self._publish(place, msgspec.to_builtins(measure), message.id)

    def hear_status(self, address: Address, message: Message) -> None:
        """Note what a device, or its will, says of itself: `online` if it is there, or `offline`.

        A client of the node itself is there, whatever a will from before says.
        """
        known = self._device(address.device)
        assert known is not None
        said = status_of(message.content)
        after = known
        if said != known.status:
            after = msgspec.structs.replace(known, status=said, seen_ms=self._now_ms)
        if said.lower() == OFFLINE and known.is_connected and self._presence(known.id) is None:
            after = _moved(after, None, self._now_ms)
        elif said.lower() == ONLINE and not known.is_connected:
            after = _moved(after, ELSEWHERE, self._now_ms)
        if after is not known:
            self._put_device(after)
        if after.is_connected != known.is_connected:
            self._tell_presence(address.device)

    def get_shadow(self, address: Address, message: Message) -> None:
        """Tell the whole shadow."""
        found = self._shadow(address)
        if found.is_deleted:
            raise UnknownDevice(f"{address.device} has no shadow")
        self._accept(address, message, found, shown(found))

    def update_shadow(self, address: Address, message: Message) -> None:
        """Change the shadow, and tell the device what it should do about it."""
        update = read(message, shadow.Update)
        before = self._shadow(address)
        if not before.version and address.name:
            shadow.check_count(len(self._shadow_names(address.device)), self._rules.limits)
        after = shadow.updated(before, update, self._rules.limits, self._now_ms)
        self._shadows[_place(address)] = after
        told = {"state": update.state, "version": after.version, "timestamp": after.timestamp}
        if update.client_token is not None:
            told["client_token"] = update.client_token
        self._accept(address, message, after, told)
        self._tell_delta(address, before, after)

    def delete_shadow(self, address: Address, message: Message) -> None:
        """Delete the shadow; its version stays, so that nobody with an old one can write."""
        asked = read(message, _Deletion)
        before = self._shadow(address)
        if before.is_deleted:
            raise UnknownDevice(f"{address.device} has no shadow")
        after = shadow.deleted(before, self._now_ms, asked.version)
        self._shadows[_place(address)] = after
        self._accept(address, message, after, {"version": after.version})
        self._tell_delta(address, before, after)

    def issue(self, address: Address, message: Message) -> None:
        """Take a command; one that was issued before is answered with how far it is."""
        issue = read(message, commands.Issue)
        command_id = issue.id or message.id
        known = self._command(address.device, command_id)
        if known is not None:
            commands.check_same(known, address.name, issue)
            self._answers[message.id] = known
            return
        opened = self._open_commands(address.device)
        for one in self._rules.flow.giving_way([one for one in opened if not one.attempts]):
            after = commands.after(
                one, commands.Event.CANCEL, self._now_ms, reason="gave way to newer commands"
            )
            self._put_command(after, before=one)
        command = commands.issued(
            command_id,
            (address.device, address.name),
            issue,
            self._rules.patience,
            issued_by=message.source,
            order=1 + max((one.order for one in opened), default=0),
            now_ms=self._now_ms,
        )
        self._put_command(command)
        self._answers[message.id] = command
        self._audit(message, "command.issue", f"{address.device} {address.name} {command_id}")

    def cancel(self, address: Address, message: Message) -> None:
        """End a command that is not wanted any more."""
        asked = read(message, _Cancellation)
        known = self._find_command(address.device, asked.id or message.correlation_id)
        after = commands.cancelled(known, self._now_ms)
        if after is not known:
            self._put_command(after, before=known)
        self._answers[message.id] = after
        self._audit(message, "command.cancel", f"{address.device} {address.name} {known.id}")

    def respond(self, address: Address, message: Message) -> None:
        """Take note of what a device has made of a command."""
        response = read(message, commands.Response)
        data = (message.correlation_data or b"").decode(errors="replace")
        known = self._find_command(
            address.device, response.id or message.correlation_id or data or ""
        )
        after = commands.answered(known, response, self._now_ms)
        if after is not known:
            self._put_command(after, before=known)

    def _find_command(self, device: str, command: str) -> Command:
        found = self._command(device, command)
        if found is None:
            raise UnknownCommand(f"{device} has no command {command[:100]!r}")
        return found

    def _put_command(self, command: Command, before: Command | None = None) -> None:
        self._commands[command.device, command.id] = command
        self._stirred[command.device] = None
        if before is not None and command.attempts > before.attempts:
            self._send(command)
        if before is None or command.state is not before.state:
            self._publish(
                Address(command.device, devices.COMMAND_STATUS, command.name),
                msgspec.to_builtins(command),
                command.id,
            )
        if command.state.is_final:
            what = f"{command.device} {command.name} {command.id}"
            self._events.append(Event("", f"command.{command.state}", what))

    def _send_next(self, device: str) -> None:
        """Send commands whose turn has come; a device that is known to be away is not sent any."""
        known = self._device(device)
        if known is None:
            return
        opened = self._open_commands(device)
        waiting = [one for one in opened if one.state is State.ISSUED]
        is_away = bool(known.changed_ms) and not known.is_connected
        under_way = len(opened) - len(waiting)
        for one in self._rules.flow.next(waiting, under_way, is_paused=is_away):
            sent = commands.after(one, commands.Event.SEND, self._now_ms)
            self._put_command(sent, before=one)

    def _send(self, command: Command) -> None:
        request = Address(command.device, devices.COMMAND_REQUEST, command.name)
        response = Address(command.device, devices.COMMAND_RESPONSE, command.name)
        told = {
            "id": command.id,
            "name": command.name,
            "parameters": command.parameters,
            "attempt": command.attempts,
            "expires_ms": command.expires_ms,
        }
        headers: Headers = (
            (RESPONSE_TOPIC, str(response).encode()),
            (CORRELATION, command.id.encode()),
            (EXPIRES, str(command.expires_ms).encode()),
        )
        self._publish(request, told, command.id, headers)

    def _tell_delta(self, address: Address, before: Shadow, after: Shadow) -> None:
        delta = after.delta
        if not delta:
            if before.delta:
                self._keep_delta(address, b"")
            return
        told = {
            "state": delta,
            "metadata": shadow.restricted(after.desired_metadata, delta),
            "version": after.version,
            "timestamp": after.timestamp,
        }
        self._publish(_delta(address), told, None, is_retained=True)

    def _keep_delta(self, address: Address, value: bytes) -> None:
        name = str(_delta(address))
        self._outgoing.append(Outgoing(address.device, name, value or None, is_retained=True))

    def _tell_presence(self, device: str) -> None:
        known = self._device(device)
        assert known is not None
        told = {"connected": known.is_connected, "timestamp": known.changed_ms, "node": known.node}
        self._publish(Address(device, devices.PRESENCE), told, None)

    def _accept(self, address: Address, message: Message, answer: object, told: Any) -> None:
        self._answers[message.id] = answer
        subject = devices.ACCEPTED[address.subject]
        self._reply(address._replace(subject=subject), message, told)

    def _reject(self, address: Address, message: Message, error: ChordMQError) -> None:
        known = self._shadow(address)
        version = known.version
        self._answers[message.id] = Refusal(error, version)
        subject = devices.REJECTED.get(address.subject)
        if subject is None:
            return
        told: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        if address.subject.path.startswith("shadow/"):
            told["version"] = version
        if isinstance(error, StaleVersion):
            told["state"] = {"desired": known.desired, "reported": known.reported}
        self._reply(address._replace(subject=subject), message, told)

    def _reply(self, address: Address, message: Message, told: Any) -> None:
        data = message.correlation_data
        headers: Headers = () if data is None else ((CORRELATION, data),)
        self._publish(address, told, message.id or None, headers)

    def _publish(
        self,
        address: Address,
        told: Any,
        correlation_id: str | None,
        headers: Headers = (),
        *,
        is_retained: bool = False,
    ) -> None:
        name = str(address)
        number = self._desk.progress.count + len(self._outgoing)
        origin = envelope.Origin(
            message_id=f"{SOURCE}-{self._desk.progress.producer_id}-{number}",
            now_ms=self._now_ms,
            topic=name,
            source=SOURCE,
            correlation_id=correlation_id,
            message_type=address.subject.type,
        )
        value = envelope.wrap(msgspec.json.encode(told), origin)
        self.size += len(value)
        self._outgoing.append(Outgoing(address.device, name, value, headers, is_retained))

    def _bury(self, incoming: Incoming, address: Address, error: ChordMQError) -> None:
        place = (incoming.topic, incoming.partition, incoming.offset)
        headers = (*incoming.headers, *obituary(*place, SOURCE, 1, str(error)))
        self._outgoing.append(
            Outgoing(address.device, incoming.name, incoming.value, headers, is_dead=True)
        )

    def _audit(self, message: Message, act: str, what: str) -> None:
        self._events.append(Event(message.source, act, what))


class _Deletion(msgspec.Struct, frozen=True, kw_only=True):
    version: int | None = None


class _Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    id: str = ""


_HANDLERS: dict[Subject, Callable[[Draft, Address, Message], None]] = {
    devices.REGISTER: Draft.register,
    devices.FORGET: Draft.forget,
    devices.STATUS: Draft.hear_status,
    devices.TELEMETRY: Draft.normalise,
    devices.SHADOW_GET: Draft.get_shadow,
    devices.SHADOW_UPDATE: Draft.update_shadow,
    devices.SHADOW_DELETE: Draft.delete_shadow,
    devices.NAMED_SHADOW_GET: Draft.get_shadow,
    devices.NAMED_SHADOW_UPDATE: Draft.update_shadow,
    devices.NAMED_SHADOW_DELETE: Draft.delete_shadow,
    devices.COMMAND_ISSUE: Draft.issue,
    devices.COMMAND_CANCEL: Draft.cancel,
    devices.COMMAND_RESPONSE: Draft.respond,
}


def _place(address: Address) -> str:
    """Return under what the shadow is kept that a message is about."""
    is_named = address.subject.path.startswith(devices.NAMED_SHADOW)
    return devices.shadow_place(address.device, address.name if is_named else "")


def _delta(address: Address) -> Address:
    subject = devices.NAMED_SHADOW_DELTA if address.name else devices.SHADOW_DELTA
    return address._replace(subject=subject)


def _moved(device: Device, node: int | None, now_ms: int) -> Device:
    return msgspec.structs.replace(
        device,
        is_connected=node is not None,
        node=device.node if node is None else node,
        changed_ms=now_ms,
        seen_ms=now_ms,
    )

"""What is known of all devices, and what holds for them (pure); only what is stored counts."""

from dataclasses import field
from typing import Any, NamedTuple

from chordmq.broker.deadlines import Deadlines
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, UnknownCommand, UnknownDevice
from chordmq.iot import commands, shadow
from chordmq.iot.commands import Command
from chordmq.iot.devices import Device
from chordmq.iot.entries import DEVICE, SHADOW, Entry, Outgoing, Progress, ShadowOf
from chordmq.iot.flow import Flow
from chordmq.iot.models import Models
from chordmq.iot.shadow import Shadow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for all devices."""

    limits: shadow.Limits = field(default_factory=shadow.Limits)
    patience: commands.Patience = field(default_factory=commands.Patience)
    flow: Flow = field(default_factory=Flow)
    registers: bool = True
    """Whether a device becomes known by its first message."""
    models: Models | None = None
    """The tables by which telemetry is told again in common names and units; None: it is not."""


class Refusal(NamedTuple):
    """Why something was not done, and the version that the shadow has."""

    error: ChordMQError
    version: int = 0


class Event(NamedTuple):
    """Something that the audit trail is told of."""

    who: str
    act: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a draft has decided."""

    entries: list[Entry]
    outgoing: list[Outgoing]
    answers: dict[str, Any]
    """What was asked for, or a Refusal, by the id of the message that asked."""
    events: list[Event]

    def __bool__(self) -> bool:
        return bool(self.entries or self.outgoing)


class Desk:
    """What is known of all devices; only `replay` changes it."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.devices: dict[str, Device] = {}
        self.shadows: dict[str, Shadow] = {}
        """By `devices.shadow_place`."""
        self.shadow_names: dict[str, dict[str, None]] = {}
        self.commands: dict[str, dict[str, Command]] = {}
        self.progress = Progress()
        self._deadlines = Deadlines()
        """When something happens by itself, by device and command."""

    def replay(self, entry: Entry) -> None:
        """Take note of what is stored."""
        if isinstance(entry, Progress):
            self.progress = entry
        elif isinstance(entry, Device):
            self.devices[entry.id] = entry
        elif isinstance(entry, ShadowOf):
            self.shadows[entry.place] = entry.shadow
            device, _, name = entry.place.partition("/")
            if name:
                self.shadow_names.setdefault(device, {})[name] = None
        elif isinstance(entry, Command):
            self.commands.setdefault(entry.device, {})[entry.id] = entry
            self._deadlines.set(f"{entry.device}/{entry.id}", self._end(entry))
        else:
            self._forget(entry.key)

    def _forget(self, key: str) -> None:
        kind, _, rest = key.partition("/")
        if kind == DEVICE:
            self.devices.pop(rest, None)
        elif kind == SHADOW:
            self.shadows.pop(rest, None)
            device, _, name = rest.partition("/")
            self.shadow_names.get(device, {}).pop(name, None)
            if not self.shadow_names.get(device):
                self.shadow_names.pop(device, None)
        else:
            device, _, command = rest.partition("/")
            self.commands.get(device, {}).pop(command, None)
            self._deadlines.discard(rest)
            if not self.commands.get(device):
                self.commands.pop(device, None)

    def _end(self, command: Command) -> int:
        if command.state.is_final:
            return command.changed_ms + self.rules.patience.kept_ms
        return commands.next_ms(command)

    def due(self, now_ms: int) -> list[Command]:
        """Return the commands to which something happens by now, once."""
        places = (name.split("/", 1) for name in self._deadlines.due(now_ms))
        return [self.commands[device][command] for device, command in places]

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long nothing happens by itself; None for ever."""
        at_ms = self._deadlines.next_ms()
        return None if at_ms is None else max(0, at_ms - now_ms)

    def device(self, device: str) -> Device:
        """Return what is known of a device, or raise UnknownDevice."""
        if device not in self.devices:
            raise UnknownDevice(f"no device {device[:100]!r}")
        return self.devices[device]

    def command(self, device: str, command: str) -> Command:
        """Return a command, or raise UnknownCommand."""
        found = self.commands.get(device, {}).get(command)
        if found is None:
            raise UnknownCommand(f"{device[:100]} has no command {command[:100]!r}")
        return found


def shown(found: Shadow) -> dict[str, Any]:
    """Return a shadow as clients see it."""
    return {
        "state": {
            "desired": found.desired, "reported": found.reported, "delta": found.delta,
        },
        "metadata": {"desired": found.desired_metadata, "reported": found.reported_metadata},
        "version": found.version,
        "timestamp": found.timestamp,
    }  # fmt: skip

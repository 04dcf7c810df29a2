"""Finds the extensions that the operator names, among the entry points of installed packages.

An extension is made once, at the start, with its own settings (`extension.<name>.<setting>`). One
that is missing, cannot be loaded, or lacks what its group asks for keeps the node from starting,
by its name: a node that runs without a check that somebody relies on is worse than none.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chordmq.broker.security.principal import Principal
from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart
from chordmq.records.record import NewRecord, Record

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from chordmq.broker.broker import Broker

INTERCEPTORS = "chordmq.interceptors"
AUTHENTICATION = "chordmq.authentication"
STORAGE_TIERS = "chordmq.storage_tiers"
FRONTS = "chordmq.fronts"


class Interceptor(Protocol):
    """Sees, and may change or refuse, what is published and delivered."""

    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        """Return as many records to store instead; raise a ChordMQError to refuse the batch."""
        ...

    def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        """Return the records to hand out; asked by fronts that do not send batches as stored."""
        ...


class AuthenticationBackend(Protocol):
    """Knows users that the node does not."""

    async def check(self, name: str, password: str) -> Principal | None:
        """Return who this is, None for somebody unknown; raise AuthenticationFailed to refuse."""
        ...


class StorageTier(Protocol):
    """Keeps old segments somewhere else; called from threads."""

    def put(self, name: str, file: Path) -> None:
        """Store a file under a name; once this returns it is safe."""
        ...

    def get(self, name: str, start: int, size: int) -> bytes:
        """Return a part of what is stored, or raise FileNotFoundError."""
        ...

    def list(self, prefix: str) -> Iterable[str]:
        """Return the names that begin so."""
        ...

    def delete(self, name: str) -> None:
        """Remove what is stored; nothing happens if it is not there."""
        ...


class Front(Protocol):
    """Speaks another protocol to clients."""

    async def open(self, broker: "Broker") -> None:
        """Begin to serve; raise if that is not possible."""
        ...

    async def close(self) -> None:
        """Finish what is under way and stop."""
        ...


GROUPS: dict[str, type] = {
    INTERCEPTORS: Interceptor,
    AUTHENTICATION: AuthenticationBackend,
    STORAGE_TIERS: StorageTier,
    FRONTS: Front,
}
"""Entry point groups, and what each of their extensions must be able to do."""

Installed = Callable[[], Iterable["EntryPoint"]]


@dataclass(frozen=True, slots=True)
class Extensions:
    """What was asked for, ready to be used, by name."""

    interceptors: dict[str, Interceptor] = field(default_factory=dict)
    authentication: dict[str, AuthenticationBackend] = field(default_factory=dict)
    storage_tiers: dict[str, StorageTier] = field(default_factory=dict)
    fronts: dict[str, Front] = field(default_factory=dict)


def installed() -> "list[EntryPoint]":
    """Return every extension of an installed package."""
    from importlib.metadata import entry_points

    return [entry for group in GROUPS for entry in entry_points(group=group)]


def load(
    names: Sequence[str],
    settings: Mapping[str, Mapping[str, str]],
    available: Installed = installed,
) -> Extensions:
    """Make the named extensions, in their order, or raise CannotStart with the reason."""
    extensions = Extensions()
    known = list(available()) if names else []
    for name in names:
        entries = [entry for entry in known if entry.name == name]
        if not entries:
            others = ", ".join(sorted({entry.name for entry in known})) or "none"
            raise CannotStart(f"Extension {name!r} is not installed; installed are: {others}.")
        for entry in entries:
            kept = getattr(extensions, entry.group.partition(".")[2])
            kept[name] = _made(entry, settings.get(name, {}))
    for name in settings:
        if name not in names:
            raise CannotStart(f"extension.{name} has settings, but extensions does not name it.")
    return extensions


def _made(entry: "EntryPoint", settings: Mapping[str, str]) -> Any:
    try:
        extension = entry.load()(dict(settings))
    except Exception as error:  # whatever a foreign package does wrong is its own fault
        raise CannotStart(
            f"Extension {entry.name!r} ({entry.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}."
        ) from error
    faults = list(_faults(extension, GROUPS[entry.group]))
    if faults:
        raise CannotStart(
            f"Extension {entry.name!r} ({entry.value}) is none of {entry.group}: "
            f"{'; '.join(faults)}."
        )
    return extension


def _faults(extension: object, interface: type) -> Iterable[str]:
    """Yield what an extension lacks to be what its group says."""
    for name, wanted in vars(interface).items():
        if name.startswith("_") or not inspect.isfunction(wanted):
            continue
        method = getattr(extension, name, None)
        if not callable(method):
            yield f"it has no method {name}"
            continue
        if inspect.iscoroutinefunction(wanted) != inspect.iscoroutinefunction(method):
            kind = "async" if inspect.iscoroutinefunction(wanted) else "plain"
            yield f"{name} must be {kind}"
        count = len(inspect.signature(wanted).parameters) - 1
        try:
            inspect.signature(method).bind(*range(count))
        except TypeError:
            yield f"{name} must take {count} arguments"

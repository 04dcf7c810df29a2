"""The shadow of a device: what it reports, what is wanted of it, and how the two differ (pure)."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidShadow, ShadowTooLarge, StaleVersion

Document = dict[str, Any]
Path = tuple[str, ...]

VERSION, TIMESTAMP = "version", "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a shadow may get."""

    size_max: int = 32 * 1024
    depth_max: int = 8
    names_max: int = 25
    """Shadows with a name that a device may have."""


class Sections(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of both sides of a shadow; null deletes a field, or a whole side."""

    desired: Document | msgspec.UnsetType | None = msgspec.UNSET
    reported: Document | msgspec.UnsetType | None = msgspec.UNSET


class Update(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What somebody wants to change."""

    state: Sections
    version: Annotated[int, Meta(ge=0, description="The shadow must have this version.")] | None = (
        None
    )
    base_version: (
        Annotated[
            int,
            Meta(ge=0, description="No field that changes may have changed since this version."),
        ]
        | None
    ) = None
    client_token: Annotated[str, Meta(max_length=64)] | None = None


class Shadow(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides, and for each field the version and time of its last change.

    A deleted shadow keeps its version, so that nobody with an old one can write.
    """

    desired: Document = {}
    reported: Document = {}
    desired_metadata: Document = {}
    reported_metadata: Document = {}
    version: int = 0
    timestamp: int = 0
    """Milliseconds since 1970."""
    is_deleted: bool = True

    @property
    def delta(self) -> Document:
        """Return the fields of the wanted side that the reported one has not, or has otherwise."""
        return difference(self.desired, self.reported)


def updated(shadow: Shadow, update: Update, limits: Limits, now_ms: int) -> Shadow:
    """Return the shadow after an update.

    Raise StaleVersion for one that was made in ignorance, InvalidShadow or ShadowTooLarge for one
    that cannot be.
    """
    _check_version(shadow, update)
    version = shadow.version + 1
    sides: dict[str, Document] = {}
    for side in ("desired", "reported"):
        patch = getattr(update.state, side)
        if patch is msgspec.UNSET:
            continue
        if patch is None:
            sides |= {side: {}, f"{side}_metadata": {}}
            continue
        check_depth(patch, limits.depth_max)
        state, metadata = getattr(shadow, side), getattr(shadow, f"{side}_metadata")
        stamp = {VERSION: version, TIMESTAMP: now_ms}
        sides[side], sides[f"{side}_metadata"] = merged(state, metadata, patch, stamp)
    if not sides:
        raise InvalidShadow("state has neither desired nor reported")
    after = msgspec.structs.replace(
        shadow, **sides, version=version, timestamp=now_ms, is_deleted=False
    )
    size = len(msgspec.json.encode((after.desired, after.reported)))
    if size > limits.size_max:
        raise ShadowTooLarge(f"the shadow would have {size} bytes, over {limits.size_max}")
    return after


def deleted(shadow: Shadow, now_ms: int, version: int | None = None) -> Shadow:
    """Return what is left of a shadow: its version."""
    if version not in (None, shadow.version):
        raise StaleVersion(f"the shadow has version {shadow.version}, not {version}")
    return Shadow(version=shadow.version + 1, timestamp=now_ms)


def merged(
    state: Document, metadata: Document, patch: Document, stamp: Document
) -> tuple[Document, Document]:
    """Return state and metadata with a patch on top; what was given is not changed."""
    state, metadata = dict(state), dict(metadata)
    for name, value in patch.items():
        if value is None:
            state.pop(name, None)
            metadata.pop(name, None)
        elif isinstance(value, dict):
            old, old_metadata = state.get(name), metadata.get(name)
            if not isinstance(old, dict):
                old, old_metadata = {}, {}
            state[name], metadata[name] = merged(old, old_metadata or {}, value, stamp)
        else:
            state[name], metadata[name] = value, stamp
    return state, metadata


def difference(wanted: Document, actual: Document) -> Document:
    """Return the fields of `wanted` that `actual` lacks or has otherwise; a list is one value."""
    found: Document = {}
    for name, value in wanted.items():
        other = actual.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            if inner := difference(value, other):
                found[name] = inner
        elif name not in actual or not _same(value, other):
            found[name] = value
    return found


def restricted(metadata: Document, to: Document) -> Document:
    """Return the metadata of those fields that a document has."""
    return {
        name: restricted(metadata[name], value)
        if isinstance(value, dict) and not _is_leaf(metadata[name])
        else metadata[name]
        for name, value in to.items()
        if name in metadata
    }


def check_count(count: int, limits: Limits) -> None:
    """Raise InvalidShadow if a device has as many shadows with names as it may."""
    if count >= limits.names_max:
        raise InvalidShadow(f"the device has {count} shadows with names, which is the limit")


def check_depth(document: Document, depth_max: int) -> None:
    """Raise InvalidShadow if a document has more levels than are allowed."""
    level: list[Any] = [document]
    for _ in range(depth_max):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise InvalidShadow(f"the state has more than {depth_max} levels")


def _inside(value: Any) -> Iterator[Any]:
    values = value.values() if isinstance(value, dict) else value
    return (one for one in values if isinstance(one, dict | list))


def _check_version(shadow: Shadow, update: Update) -> None:
    if update.version not in (None, shadow.version):
        raise StaleVersion(f"the shadow has version {shadow.version}, not {update.version}")
    if update.base_version is None:
        return
    for side in ("desired", "reported"):
        patch = getattr(update.state, side)
        metadata = getattr(shadow, f"{side}_metadata")
        found = metadata if patch is None else _touched(metadata, patch or {})
        newest = max(_versions(found), default=0)
        if newest > update.base_version:
            raise StaleVersion(
                f"a field of {side} has changed in version {newest}, "
                f"after {update.base_version}; the shadow has version {shadow.version}"
            )


def _touched(metadata: Document, patch: Document) -> Document:
    """Return the metadata of the fields that a patch would replace or remove."""
    found: Document = {}
    for name, value in patch.items():
        below = metadata.get(name)
        if below is None:
            continue
        is_inner = isinstance(value, dict) and not _is_leaf(below)
        found[name] = _touched(below, value) if is_inner else below
    return found


def _versions(metadata: Document) -> Iterator[int]:
    if _is_leaf(metadata):
        yield metadata[VERSION]
        return
    for below in metadata.values():
        yield from _versions(below)


def _is_leaf(metadata: Document) -> bool:
    """Return whether metadata is that of one field; a field named `version` has some of its own."""
    return isinstance(metadata.get(VERSION), int)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON, where `true` is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)

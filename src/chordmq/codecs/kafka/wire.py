"""How a field of a Kafka message travels: its type, its versions and its tag."""

from struct import calcsize
from sys import modules
from typing import Any, NamedTuple

from msgspec import NODEFAULT
from msgspec.structs import fields

from chordmq.dataclass import dataclass

NO_UUID = bytes(16)

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of fixed size, with their `struct` format."""

ARRAY_TABLE_SIZE = 16
"""Arrays with fewer numbers than this find their packed format ready."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A field as its schema describes it; version ranges read like `3`, `0-11` or `4+`."""

    kind: str
    versions: str = "0+"
    nullable: str = "none"
    tag: int | None = None
    tagged: str = ""
    """The versions with the tag, if the field had a place of its own before."""
    ignorable: bool = False
    """Whether a value is dropped, not refused, in versions that lack the field."""


class Field(NamedTuple):
    """A field in one version of its message."""

    name: str
    kind: str
    """A type of the schema language; `[]` before it marks an array."""
    struct: type[Any] | None
    """The class of the value, or of an array's elements, if it is a struct."""
    is_present: bool
    is_nullable: bool
    tag: int | None
    default: Any
    is_ignorable: bool


def within(version: int, versions: str) -> bool:
    """Return whether a version lies in a range."""
    if versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def fields_at(cls: type[Any], version: int) -> list[Field]:
    """Return the fields of a message or struct, in order, as one version has them."""
    result = []
    for item in fields(cls):
        wire: Wire = item.type.__metadata__[0]
        element = wire.kind.removeprefix("[]")
        is_struct = element[0].isupper()
        makes_default = item.default_factory is not NODEFAULT
        default = item.default_factory() if makes_default else item.default
        is_tagged = wire.tag is not None and within(version, wire.tagged or wire.versions)
        result.append(
            Field(
                name=item.name,
                kind=wire.kind,
                struct=getattr(modules[cls.__module__], element) if is_struct else None,
                is_present=within(version, wire.versions),
                is_nullable=within(version, wire.nullable),
                tag=wire.tag if is_tagged else None,
                default=default,
                is_ignorable=wire.ignorable,
            )
        )
    return result


def size_min(kind: str, struct: type[Any] | None, version: int, *, is_flexible: bool) -> int:
    """Return the fewest bytes that a value can take, to bound a count before allocating."""
    if kind.startswith("[]") or kind in {"bytes", "records"}:
        return 1 if is_flexible else 4
    if kind == "string":
        return 1 if is_flexible else 2
    if struct is None:
        return calcsize(">" + FORMATS[kind])
    total = int(is_flexible)
    for item in fields_at(struct, version):
        if item.is_present and item.tag is None:
            is_bare = item.kind.startswith("[]") or not item.is_nullable or item.struct is None
            total += (
                size_min(item.kind, item.struct, version, is_flexible=is_flexible) if is_bare else 1
            )
    return total

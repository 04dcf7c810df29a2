"""Dataclasses that are made in a fifth of the time that the standard library takes.

A node has some two hundred of them, which were a third of its start: the library writes up to six
methods for each and compiles them at once. Here all classes share those that no hot path calls, and
`__init__` is written when a class turns out to have more than a few objects, which most settings do
not. Everything else is as in the library, whose `field`, `fields`, `replace` and `asdict` are used
as ever. Slots are always made.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

FIELDS = "__dataclass_fields__"
FIELD = dataclasses._FIELD  # type: ignore[attr-defined]
MISSING = dataclasses.MISSING
PARAMETERS = {is_frozen: SimpleNamespace(frozen=is_frozen) for is_frozen in (False, True)}
"""What the library asks of a class that one of its own is derived from."""

Fields = dict[str, Any]

UNWRITTEN_MAX = 2
"""Objects of a class that are filled without a method of its own: the defaults, and what is set."""


def make(
    *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type], type]:
    """Return what makes a dataclass of a class."""
    assert slots

    def decorate(cls: type) -> type:
        fields = _inherited(cls) | _own(cls, kw_only)
        shared: dict[str, Any] = {"__init__": _unwritten(lambda: made), "__repr__": _shown}
        if eq:
            shared["__eq__"] = _is_equal
        if frozen:
            shared |= FROZEN
        members = shared | _members(cls, fields)
        if eq and members.get("__hash__") is None:
            members["__hash__"] = _hashed if frozen else None
        members["__dataclass_params__"] = PARAMETERS[frozen]
        # With all its methods at once: to add one later, Python looks through all it may change.
        made = type(cls)(cls.__name__, cls.__bases__, members)
        return made

    return decorate


def _inherited(cls: type) -> Fields:
    found: Fields = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get(FIELDS, {})
    return found


def _own(cls: type, kw_only: bool) -> Fields:
    kinds: dict[str, Any] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - not evaluated
    return {
        name: _field(cls, name, kind, kw_only)
        for name, kind in kinds.items()
        if not (kind is ClassVar or getattr(kind, "__origin__", None) is ClassVar)
    }


def _field(cls: type, name: str, kind: Any, kw_only: bool) -> Any:
    given = cls.__dict__.get(name, MISSING)
    if isinstance(given, dataclasses.Field):
        field = given
    elif isinstance(given, MemberDescriptorType):
        field = dataclasses.field()
    else:
        field = dataclasses.field(default=given)
    field.name, field.type = name, kind
    if field.kw_only is MISSING:
        field.kw_only = kw_only
    field._field_type = FIELD  # type: ignore[attr-defined]
    return field


def _members(cls: type, fields: Fields) -> dict[str, Any]:
    """Return what the class has, with a slot for each field that has none, and what these say."""
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    left_out = {"__dict__", "__weakref__", *fields}
    members = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    members["__qualname__"] = cls.__qualname__
    members["__slots__"] = tuple(name for name in fields if name not in inherited)
    members[FIELDS] = fields
    members["__match_args__"] = tuple(
        field.name for field in fields.values() if field.init and not field.kw_only
    )
    compared = [field.name for field in fields.values() if field.compare]
    members["_compared"] = staticmethod(attrgetter(*compared) if compared else _nothing)
    return members


def _unwritten(made: Callable[[], type]) -> Callable[..., None]:
    filled = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal filled
        cls = made()
        if filled < UNWRITTEN_MAX and not args and _takes(cls, kwargs):
            filled += 1
            _fill(self, cls, kwargs)
            return
        written = _written(cls)
        setattr(cls, "__init__", written)  # noqa: B010 - mypy refuses an assignment
        written(self, *args, **kwargs)

    return __init__


def _takes(cls: Any, given: dict[str, Any]) -> bool:
    """Return whether these are fields to be given, and all that must be."""
    fields = [field for field in getattr(cls, FIELDS).values() if field.init]
    needed = {
        field.name
        for field in fields
        if field.default is MISSING and field.default_factory is MISSING
    }
    return needed <= given.keys() <= {field.name for field in fields}


def _fill(self: Any, cls: Any, given: dict[str, Any]) -> None:
    """Do what the written method does."""
    put = object.__setattr__ if cls.__dataclass_params__.frozen else setattr
    for field in getattr(cls, FIELDS).values():
        name = field.name
        if name in given:
            put(self, name, given[name])
        elif field.default_factory is not MISSING:
            put(self, name, field.default_factory())
        elif field.default is not MISSING:
            put(self, name, field.default)
    if hasattr(cls, "__post_init__"):
        self.__post_init__()


def _written(cls: Any) -> Callable[..., None]:
    """Return the method that fills the fields of an object."""
    fields = getattr(cls, FIELDS).values()
    names: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    parameters, by_name, lines = ["self"], list[str](), list[str]()
    for field in fields:
        name = field.name
        if field.init:
            (by_name if field.kw_only else parameters).append(name + _default(field, names))
        elif field.default is MISSING and field.default_factory is MISSING:
            continue
        lines.append(_assignment(field, cls.__dataclass_params__.frozen, names))
    if by_name:
        parameters += ["*", *by_name]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), names)  # noqa: S102
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init  # type: ignore[no-any-return]


def _default(field: Any, names: dict[str, Any]) -> str:
    if field.default is not MISSING:
        names[f"_default_{field.name}"] = field.default
        return f"=_default_{field.name}"
    return "" if field.default_factory is MISSING else "=_missing"


def _assignment(field: Any, is_frozen: bool, names: dict[str, Any]) -> str:
    name = value = field.name
    if field.default_factory is not MISSING:
        names[f"_new_{name}"] = field.default_factory
        value = f"_new_{name}()"
        if field.init:
            value += f" if {name} is _missing else {name}"
    elif not field.init:
        names[f"_default_{name}"] = field.default
        value = f"_default_{name}"
    return f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}"


# What all classes share.


def _nothing(_: object) -> tuple[()]:
    return ()


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (field.name for field in getattr(self, FIELDS).values() if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _is_equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    compared = self._compared
    return bool(compared(self) == compared(other))


def _hashed(self: Any) -> int:
    return hash(self._compared(self))


def _refuse(self: Any, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"{name!r} of {type(self).__name__} cannot change")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, FIELDS)]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, FIELDS), state, strict=True):
        object.__setattr__(self, name, value)


FROZEN = {
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__getstate__": _state,
    "__setstate__": _restore,
}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = make

"""Named tuples that are made in a quarter of the time that the standard library takes.

A node has some fifty of them before it is ready. The library compiles a method for each at once;
here that is done with the first object, and the other methods are shared. Everything else is as in
the library.
"""

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any


class Maker(type):
    """Makes a class below `Named` a named tuple of the fields that it annotates."""

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        """Return the class, which knows nothing of the maker."""
        if not bases:
            return super().__new__(cls, name, bases, space)
        fields = tuple(space.get("__annotations__", ()))
        defaults = {field: space.pop(field) for field in fields if field in space}
        assert fields[len(fields) - len(defaults) :] == tuple(defaults)
        members = SHARED | space
        members |= {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
        members |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        members |= {"__slots__": (), "__new__": _unwritten(lambda: made)}
        made = type(name, (tuple, *bases[1:]), members)
        return made


class Named(metaclass=Maker):
    """Stands where named tuples are derived from."""


def _unwritten(made: Callable[[], Any]) -> Callable[..., Any]:
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        kind = made()
        written = _written(kind)
        kind.__new__ = staticmethod(written)
        return written(cls, *args, **kwargs)

    return __new__


def _written(kind: Any) -> Callable[..., Any]:
    """Return the method that makes an object."""
    names = ", ".join(kind._fields)
    space = {"_new": tuple.__new__, "__builtins__": {}}
    method: Callable[..., Any] = eval(f"lambda _cls, {names}: _new(_cls, ({names},))", space)  # noqa: S307
    method.__defaults__ = tuple(kind._field_defaults.values())
    method.__name__ = "__new__"
    method.__qualname__ = f"{kind.__qualname__}.__new__"
    return method


# What all classes share.


def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _shown(self: Any) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({values})"


def _as_dict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(self)


SHARED = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "_asdict": _as_dict,
    "__repr__": _shown,
    "__getnewargs__": _values,
}

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = Named

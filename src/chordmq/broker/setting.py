"""One declared setting: its type, range, default and purpose, and how its text is read."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
NAME_LENGTH_MAX = 100

Value = bool | int | float | str | tuple[str, ...]


class Kind(Enum):
    """What a setting's text means."""

    BOOLEAN = auto()
    INT = auto()
    LONG = auto()
    DOUBLE = auto()
    STRING = auto()
    LIST = auto()


class Source(Enum):
    """Where the value in force comes from; the first that has one wins."""

    TOPIC = auto()
    GROUP = auto()
    NODE_DYNAMIC = auto()
    """Set on the running node by an administrator."""
    NODE = auto()
    """Read from the node's configuration at start."""
    DEFAULT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What can be set, within which limits, and why one would."""

    name: str
    kind: Kind
    default: Value
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    """The only texts, or list items, allowed; empty when any is."""
    pattern: str = ""
    """What a text, or each list item, must look like; empty when it may be any."""
    node_name: str | None = None
    """For a topic setting: the node's setting that gives its default."""
    has_effect: bool = True
    """False when the name is taken for compatibility and changes nothing yet."""
    dynamic: bool = False
    """For a node setting: it can be changed while the node runs."""

    def parse(self, text: str) -> Value:
        """Return the value that the text means, or raise InvalidSetting with the reason."""
        value = _READERS[self.kind](self, text.strip())
        if isinstance(value, int | float) and not self.low <= value <= self.high:
            raise self._refused(text, f"the value must be {self._range()}")
        for item in value if isinstance(value, tuple) else (str(value),):
            if self.choices and item not in self.choices:
                raise self._refused(text, f"it must be one of {', '.join(self.choices)}")
            if self.pattern and not re.fullmatch(self.pattern, item):
                raise self._refused(text, f"{item} does not follow the pattern {self.pattern}")
        return value

    def _range(self) -> str:
        if self.high in (math.inf, INT_MAX, LONG_MAX):
            return f"at least {self.low:.15g}"
        return f"between {self.low:.15g} and {self.high:.15g}"

    def _refused(self, text: str, reason: str) -> InvalidSetting:
        return InvalidSetting(f"Invalid value {text} for configuration {self.name}: {reason}")

    def read_boolean(self, text: str) -> bool:
        """Return the truth value; only the two words are allowed."""
        if text.lower() not in ("true", "false"):
            raise self._refused(text, "it must be true or false")
        return text.lower() == "true"

    def read_integer(self, text: str) -> int:
        """Return a whole number that fits the type's width."""
        limit = INT_MAX if self.kind is Kind.INT else LONG_MAX
        digits = text.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(LONG_MAX))):
            raise self._refused(text, "it is not a whole number")
        number = int(text)
        if not -limit - 1 <= number <= limit:
            raise self._refused(text, f"it does not fit a {self.kind.name.lower()}")
        return number

    def read_double(self, text: str) -> float:
        """Return a finite number."""
        try:
            number = float(text)
        except ValueError:
            raise self._refused(text, "it is not a number") from None
        if not math.isfinite(number):
            raise self._refused(text, "it is not a finite number")
        return number

    def read_string(self, text: str) -> str:
        """Return the text as it is."""
        return text

    def read_list(self, text: str) -> tuple[str, ...]:
        """Return the items between the commas, each once."""
        if not text:
            return ()
        items = tuple(dict.fromkeys(item.strip() for item in text.split(",")))
        if "" in items:
            raise self._refused(text, "the list has an empty item")
        return items


_READERS: dict[Kind, Callable[[Setting, str], Value]] = {
    Kind.BOOLEAN: Setting.read_boolean,
    Kind.INT: Setting.read_integer,
    Kind.LONG: Setting.read_integer,
    Kind.DOUBLE: Setting.read_double,
    Kind.STRING: Setting.read_string,
    Kind.LIST: Setting.read_list,
}


def text_of(value: Value) -> str:
    """Return the text that `Setting.parse` reads back as `value`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that a setting has in one place."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting as an administrator sees it: the value in force first, then those behind it."""

    setting: Setting
    candidates: tuple[Candidate, ...]

    @property
    def value(self) -> str:
        """Return the text of the value in force."""
        return self.candidates[0].value

    @property
    def source(self) -> Source:
        """Return where the value in force comes from."""
        return self.candidates[0].source


class Operation(Enum):
    """What a change does to a setting."""

    SET = auto()
    DELETE = auto()
    APPEND = auto()
    SUBTRACT = auto()


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one setting; only DELETE needs no value."""

    name: str
    operation: Operation
    value: str = ""


def altered(
    given: Mapping[str, str], changes: Iterable[Change], shown: Iterable[Shown]
) -> dict[str, str]:
    """Return what the changes make of the settings given; `shown` tells what is in force."""
    rows = {row.setting.name: row for row in shown}
    result = dict(given)
    for change in changes:
        if change.operation is Operation.SET:
            result[change.name] = change.value
        elif change.operation is Operation.DELETE:
            result.pop(change.name, None)
        else:
            result[change.name] = _list_altered(change, rows)
    return result


def _list_altered(change: Change, rows: Mapping[str, Shown]) -> str:
    row = rows.get(change.name)
    if row is None:
        raise unknown(change.name, rows)
    setting = row.setting
    if setting.kind is not Kind.LIST:
        raise InvalidSetting(
            f"{setting.name} is not a list, so nothing can be added to it or taken away"
        )
    items, named = setting.read_list(row.value), setting.read_list(change.value)
    if change.operation is Operation.APPEND:
        return ",".join(dict.fromkeys((*items, *named)))
    return ",".join(item for item in items if item not in named)


def declare(kind: Kind, default: Value, about: str, **limits: Any) -> Any:
    """Declare a dataclass field as a setting; its name is the field's, with dots."""
    return dataclasses.field(
        default=default,
        metadata={"kind": kind, "default": default, "help": about, **limits},
    )


def declared(owner: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    found = {}
    for field in dataclasses.fields(owner):
        if "kind" in field.metadata:
            name = field.name.replace("_", ".")
            found[name] = Setting(name=name, **field.metadata)
    return found


def field_name(name: str) -> str:
    """Return the dataclass field that holds the setting."""
    return name.replace(".", "_")


def parse_all(table: Mapping[str, Setting], texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the values by field name; raise InvalidSetting for the first that is wrong."""
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in table:
            raise unknown(name, table)
        values[field_name(name)] = table[name].parse(text)
    return values


def unknown(name: str, known: Iterable[str]) -> InvalidSetting:
    """Return the error for a name that nothing has, with the one probably meant."""
    nearest = []
    if len(name) <= NAME_LENGTH_MAX:  # comparing takes time that grows with the length
        import difflib

        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return InvalidSetting(f"Unknown configuration name: {name}{hint}")

"""What is known of each setting of a node: its value, where that comes from, and what it is for."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from chordmq.config import (
    EXTENSION_PREFIX,
    LEVELS_PREFIX,
    READERS,
    Config,
    Texts,
    from_assignments,
    from_environment,
    from_file,
    known,
    load,
    unknown,
    variable,
)

BROKER_PREFIX = "broker."
HIDDEN = "***"
SECRET_WORDS = ("password", "secret", "token")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A setting with its value in force."""

    name: str
    value: str
    source: str
    """default, file, environment or flag."""
    default: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a setting is for, and how it is given."""

    name: str
    kind: str
    default: str
    about: str
    environment: str
    has_effect: bool = True
    dynamic: bool = False
    """Whether a running node takes a new value."""


def effective(
    file: Path | None, environment: Mapping[str, str], assignments: Iterable[str]
) -> Iterator[Fact]:
    """Yield every setting as a node would start with it; raise InvalidSetting if it would not."""
    given = list(assignments)
    config = load(file, environment=environment, assignments=given)
    layers: list[tuple[str, Texts]] = [
        ("flag", from_assignments(given)),
        ("environment", from_environment(environment)),
        ("file", from_file(file, environment) if file else {}),
    ]
    values, defaults = texts_of(config), texts_of(Config())
    written = {name: text for _, texts in reversed(layers) for name, text in texts.items()}
    for name in dict.fromkeys([*values, *written]):
        yield Fact(
            name=name,
            value=values[name] if name in values else _hidden(name, written[name]),
            source=next((source for source, texts in layers if name in texts), "default"),
            default=defaults.get(name, ""),
        )


def texts_of(config: Config) -> Texts:
    """Return every setting of a configuration as text, secrets hidden."""
    kafka = {f"{BROKER_PREFIX}{row.setting.name}": row.value for row in config.broker.shown()}
    return {
        name: kafka[name] if name in kafka else _text(config, name)
        for name in known()
        if name in kafka or not name.startswith(BROKER_PREFIX)
    }


def meaning(name: str) -> Meaning:
    """Return what a setting is for; raise InvalidSetting with the nearest if there is none."""
    names = known()
    if name not in names and f"{BROKER_PREFIX}{name}" in names:
        name = f"{BROKER_PREFIX}{name}"
    if name.startswith((LEVELS_PREFIX, EXTENSION_PREFIX)):
        about = "How much a module logs." if name.startswith(LEVELS_PREFIX) else "An extension's."
        return Meaning(name=name, kind="text", default="", about=about, environment="")
    if name not in names:
        raise unknown(name)
    if name.startswith(BROKER_PREFIX):
        return _kafka_meaning(name)
    *groups, field = name.split(".")
    owner: Any = Config()
    for group in groups:
        owner = getattr(owner, group)
    return Meaning(
        name=name,
        kind=_kind(get_type_hints(type(owner))[field]),
        default=_text(Config(), name),
        about=_about(type(owner), field),
        environment=variable(name),
    )


def _kafka_meaning(name: str) -> Meaning:
    wanted = name.removeprefix(BROKER_PREFIX)
    (row,) = [row for row in Config().broker.shown() if row.setting.name == wanted]
    setting = row.setting
    choices = ", ".join(setting.choices)
    return Meaning(
        name=name,
        kind=f"one of {choices}" if choices else setting.kind.name.lower(),
        default=row.value,
        about=setting.help,
        environment=variable(name),
        has_effect=setting.has_effect,
        dynamic=setting.dynamic,
    )


def _hidden(name: str, text: str) -> str:
    """Return a setting as it is, unless its name says that it is a secret."""
    is_secret = any(word in name.rpartition(".")[2] for word in SECRET_WORDS)
    return HIDDEN if is_secret and text else text


def _text(config: Config, name: str) -> str:
    *groups, field = name.split(".")
    owner: Any = config
    for group in groups:
        owner = getattr(owner, group)
    value = getattr(owner, field)
    return _hidden(name, str(value).lower() if isinstance(value, bool) else str(value))


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    return READERS[kind][1].removeprefix("a ")


def _about(owner: type, field: str) -> str:
    """Return the text below a field's declaration in the nearest class that has one."""
    texts = (_texts_below(kind).get(field) for kind in owner.__mro__[:-1])
    return next(filter(None, texts), "")


@cache
def _texts_below(owner: type) -> dict[str, str]:
    """Return the fields of a class that a text follows, with that text."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for pair in pairwise(tree.body):
        match pair:
            case [
                ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ]:
                found[field] = inspect.cleandoc(text)
    return found

"""Renders the part of Helm's templates that our chart uses: Helm itself takes minutes to build."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_TOKEN = re.compile(r"[ \t]*\{\{-\s*(.*?)\s*\}\}[ \t]*\n|\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_RANGE = re.compile(r"range \$(\w+), \$(\w+) := (\S+)")

CASES: list[dict[str, Any]] = [
    {},
    {"replicas": 3, "etcd": "http://etcd:2379", "insecure": True},
    {
        "tlsSecret": "certificates",
        "environment": {"CHORDMQ_KAFKA_CONNECTIONS_MAX": 5},
        "storage": {"className": "fast"},
        "serviceMonitor": True,
        "pipeline": {"enabled": True, "mongodb": "mongodb://m", "loginSecret": "login"},
        "gateways": {"enabled": True},
    },
    {
        "tlsSecret": "certificates",
        "pipeline": {
            "enabled": True,
            "loginSecret": "login",
            "sparkApplication": {"enabled": True, "executors": 5},
        },
    },
]
"""Values that together switch on everything that the chart can make."""


class CannotRender(ValueError):
    """A template uses something that this renderer does not know."""


def render(chart: Path, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return every object that the chart makes with these values on top of its own."""
    base = yaml.safe_load((chart / "values.yaml").read_text())
    scope = {"Values": _merged(base, values or {}), "Release": {"Name": "demo"}}
    found = []
    for template in sorted((chart / "templates").glob("*.yaml")):
        text, rest = _block(_tokens(template.read_text()), scope, live=True)
        assert not rest, f"{template.name} ends inside of a block"
        found += [one for one in yaml.safe_load_all(text) if one]
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    """Cut a template into plain text and what stands between braces."""
    tokens, at = [], 0
    for match in _TOKEN.finditer(text):
        tokens.append(("text", text[at : match.start()]))
        tokens.append(("code", match[1] or match[2]))
        at = match.end()
    return [*tokens, ("text", text[at:])]


def _block(
    tokens: list[tuple[str, str]], scope: dict[str, Any], *, live: bool
) -> tuple[str, list[tuple[str, str]]]:
    """Render up to the block's end; return the text and what follows."""
    out = ""
    while tokens:
        (kind, text), tokens = tokens[0], tokens[1:]
        if kind == "text":
            out += text if live else ""
        elif text == "end":
            return out, tokens
        elif text.startswith("if "):
            inner, tokens = _block(tokens, scope, live=live and _holds(text[3:], scope))
            out += inner
        elif match := _RANGE.fullmatch(text):
            rows = _value(match[3], scope) if live else {}
            after: list[tuple[str, str]] | None = None
            for key, value in rows.items():
                inner, after = _block(tokens, {**scope, match[1]: key, match[2]: value}, live=True)
                out += inner
            tokens = after if after is not None else _block(tokens, scope, live=False)[1]
        else:
            out += _expression(text, scope) if live else ""
    return out, []


def _expression(text: str, scope: dict[str, Any]) -> str:
    source, *filters = (part.strip() for part in text.split("|"))
    if source.startswith("toYaml "):
        shown = yaml.safe_dump(_value(source.removeprefix("toYaml "), scope)).rstrip()
    else:
        shown = _plain(_value(source, scope))
    for one in filters:
        name, *arguments = one.split()
        if name == "quote":
            shown = json.dumps(shown)
        elif name == "nindent":
            pad = " " * int(arguments[0])
            shown = "\n" + "\n".join(pad + line for line in shown.splitlines())
        else:
            raise CannotRender(one)
    return shown


def _holds(text: str, scope: dict[str, Any]) -> bool:
    path = text.removeprefix("not ")
    return bool(_value(path, scope)) == (path == text)


def _value(path: str, scope: dict[str, Any]) -> Any:
    if not path.startswith((".", "$")):
        raise CannotRender(path)
    found: Any = scope
    for name in path.lstrip(".$").split("."):
        found = found[name]
    return found


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merged(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in more.items():
        nested = isinstance(value, Mapping) and isinstance(base.get(name), dict)
        found[name] = _merged(base[name], value) if nested else value
    return found

"""Writes the typed Kafka message modules from the schemas in schema/kafka."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "schema" / "kafka"
CODEC = ROOT / "src" / "chordmq" / "codecs" / "kafka"
MODULES = CODEC / "messages"
INDEX = CODEC / "apis.py"

HEADERS = {"RequestHeader", "ResponseHeader"}  # written by hand in header.py
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "uuid": "bytes",
    "bytes": "bytes",
    "records": "memoryview | bytes",
}
ZERO_VALUES = {
    "bool": "False",
    "float64": "0.0",
    "string": '""',
    "uuid": "NO_UUID",
    "bytes": 'b""',
    "records": "None",
}

Schema = dict[str, Any]


def load(path: Path) -> Schema:
    """Read one schema, which is JSON with comment lines."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    schema: Schema = json.loads(text)
    return schema


def snake(name: str) -> str:
    """Turn a schema's name into a Python name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def bounds(text: str) -> tuple[int, int | None]:
    """Return the first and the last version of a range such as `3`, `0-11` or `4+`."""
    if text.endswith("+"):
        return int(text[:-1]), None
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def is_struct(kind: str) -> bool:
    """Return whether a type names a struct of the schema."""
    return kind[0].isupper()


def shape(fields: list[Schema]) -> str:
    """Return what of the fields matters on the wire, to compare two structs."""
    ignored = {"about", "entityType", "mapKey"}
    return json.dumps(
        [
            {k: shape(v) if k == "fields" else v for k, v in f.items() if k not in ignored}
            for f in fields
        ],
        sort_keys=True,
    )


@dataclass(eq=False)
class Struct:
    """A class to write."""

    name: str
    fields: list[Schema]
    message: Schema
    is_top: bool = False


@dataclass
class Module:
    """The structs of one API, in the order in which they are written."""

    name: str
    structs: list[Struct] = field(default_factory=list)

    def add(self, message: Schema) -> None:
        """Add a message after the structs that it is made of."""
        for struct in message.get("commonStructs", []):
            self.structs.append(Struct(struct["name"], struct["fields"], message))
        self.structs.extend(_nested(message["fields"], message))
        self.structs.append(Struct(message["name"], message["fields"], message, is_top=True))

    def resolve_clashes(self) -> None:
        """Keep one of equal structs with equal names; name differing ones after their message."""
        by_name: dict[str, list[Struct]] = defaultdict(list)
        for struct in self.structs:
            by_name[struct.name].append(struct)
        for structs in by_name.values():
            if len({shape(struct.fields) for struct in structs}) > 1:
                for struct in structs:
                    struct.name = struct.message["name"] + struct.name
            else:
                for struct in structs[1:]:
                    self.structs.remove(struct)

    def class_of(self, struct_name: str, message: Schema) -> str:
        """Return the Python class for a struct as one message names it."""
        names = {struct.name for struct in self.structs}
        return struct_name if struct_name in names else message["name"] + struct_name


def _nested(fields: list[Schema], message: Schema) -> Iterator[Struct]:
    for item in fields:
        if "fields" in item:
            yield from _nested(item["fields"], message)
            yield Struct(item["type"].removeprefix("[]"), item["fields"], message)


def docstring(struct: Struct) -> str:
    """Return a struct's docstring: which message it is, or is a part of."""
    if struct.is_top:
        return f"{struct.name}, versions {struct.message['validVersions']}."
    return f"A part of {struct.message['name']}."


def default_of(item: Schema, class_name: str, nullable: bool) -> str:
    """Return the field's default as Python source."""
    kind, default = item["type"], item.get("default")
    if default == "null" or (kind == "records" and nullable):
        return "None"
    if kind.startswith("[]"):
        return "field(default_factory=list)"
    if is_struct(kind):
        return f"field(default_factory={class_name})"
    if default is None or default == "":
        return ZERO_VALUES.get(kind, "0")
    if kind == "bool":
        return str(default).capitalize()
    if kind == "string":
        return json.dumps(default)
    return str(int(str(default), 0)) if kind != "float64" else str(float(default))


def field_line(item: Schema, module: Module, message: Schema) -> str:
    """Return the line that declares one field."""
    kind = item["type"]
    element = kind.removeprefix("[]")
    class_name = module.class_of(element, message) if is_struct(element) else ""
    python = class_name or PYTHON_TYPES.get(element, "int")
    if kind.startswith("[]"):
        python = f"list[{python}]"
    nullable = item.get("nullableVersions", "none") != "none"
    default = default_of(item, class_name, nullable)
    if nullable or default == "None":
        python += " | None"
    wire = ", ".join(_wire_arguments(item, class_name, message))
    return f"    {snake(item['name'])}: Annotated[{python}, Wire({wire})] = {default}"


def _wire_arguments(item: Schema, class_name: str, message: Schema) -> Iterator[str]:
    kind = item["type"]
    prefix = "[]" if kind.startswith("[]") else ""
    yield json.dumps(prefix + class_name if class_name else kind)
    first, last = bounds(message["validVersions"])
    since, until = bounds(item["versions"])
    if since > first or (until is not None and until < (last or 0)):
        yield json.dumps(item["versions"])
    if item.get("nullableVersions", "none") != "none":
        yield f'nullable="{item["nullableVersions"]}"'
    if "tag" in item:
        yield f"tag={item['tag']}"
        if item["taggedVersions"] != item["versions"]:
            yield f'tagged="{item["taggedVersions"]}"'
    if item.get("ignorable"):
        yield "ignorable=True"


def class_lines(struct: Struct, module: Module) -> Iterator[str]:
    """Yield the lines of one class."""
    yield f"class {struct.name}(Struct):"
    yield f'    """{docstring(struct)}"""'
    yield ""
    message = struct.message
    if struct.is_top:
        if "apiKey" in message:
            yield f"    api_key: ClassVar[int] = {message['apiKey']}"
        yield f"    versions: ClassVar[range] = {stable_versions(message)}"
        yield f"    flexible_since: ClassVar[int | None] = {flexible_since(message)}"
        yield ""
    for item in struct.fields:
        yield field_line(item, module, message)
    yield ""
    yield ""


def stable_versions(message: Schema) -> str:
    """Return the source of the range of versions that Kafka serves by default."""
    first, last = bounds(message["validVersions"])
    assert last is not None
    stop = last + 1 - bool(message.get("latestVersionUnstable"))
    return f"range({first}, {stop})" if first else f"range({stop})"


def flexible_since(message: Schema) -> int | None:
    """Return the first version with compact lengths and tagged fields."""
    text = message["flexibleVersions"]
    return None if text == "none" else bounds(text)[0]


def module_source(module: Module) -> str:
    """Return the source of one module."""
    lines = [line for struct in module.structs for line in class_lines(struct, module)]
    body = "\n".join(lines)
    class_names = "Struct, field" if "field(" in body else "Struct"
    schema_names = "NO_UUID, Wire" if "NO_UUID" in body else "Wire"
    return (
        f'"""Kafka\'s {module.name} messages, written by scripts/generate_messages.py."""\n\n'
        "from __future__ import annotations\n\n"
        "from typing import Annotated, ClassVar\n\n"
        f"from msgspec import {class_names}\n\n"
        f"from chordmq.codecs.kafka.wire import {schema_names}\n\n\n"
        f"{body}"
    )


def index_source(messages: list[Schema]) -> str:
    """Return the source of the table of APIs."""
    requests = {m["apiKey"]: m for m in messages if m["type"] == "request"}
    lines = [
        '"""The table of Kafka APIs that have a codec; scripts/generate_messages.py writes it."""',
        "",
        "from typing import NamedTuple",
        "",
        "",
        "class Api(NamedTuple):",
        '    """One API: its name, the module with its messages, and its versions."""',
        "",
        "    name: str",
        "    module: str",
        "    versions: range",
        "    flexible_since: int | None",
        "",
        "",
        "APIS: dict[int, Api] = {",
    ]
    for key, message in sorted(requests.items()):
        name = message["name"].removesuffix("Request")
        lines.append(
            f'    {key}: Api("{name}", "{snake(name)}", {stable_versions(message)},'
            f" {flexible_since(message)}),"
        )
    return "\n".join([*lines, "}", ""])


def sources() -> dict[Path, str]:
    """Return every file to write, by its path, before formatting."""
    messages = [load(path) for path in sorted(SCHEMAS.glob("*.json"))]
    unstable = {m["apiKey"] for m in messages if m.get("latestVersionUnstable")}
    modules: dict[str, Module] = {}
    for message in messages:
        if message["name"] in HEADERS:
            continue
        message["latestVersionUnstable"] = message.get("apiKey") in unstable
        name = re.sub(r"(Request|Response|Subscription|Assignment)$", "", message["name"])
        modules.setdefault(name, Module(name)).add(message)
    result = {INDEX: index_source(messages)}
    for module in modules.values():
        module.resolve_clashes()
        result[MODULES / f"{snake(module.name)}.py"] = module_source(module)
    return result


def formatted(files: dict[Path, str]) -> dict[Path, str]:
    """Return the files as the project's formatter writes them."""
    with tempfile.TemporaryDirectory() as directory:
        names = {path: Path(directory) / path.name for path in files}
        for path, source in files.items():
            names[path].write_text(source)
        command = [sys.executable, "-m", "ruff", "format", "--quiet"]
        settings = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([*command, *settings, directory], check=True)
        return {path: copy.read_text() for path, copy in names.items()}


def main() -> int:
    """Write the modules, or with --check say which ones differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args().check
    files = formatted(sources())
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in MODULES.glob("[a-z]*.py") if path not in files]
    for path in stale:
        if check:
            print(f"differs from its schema: {path.relative_to(ROOT)}")
        elif path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

"""Describes the routes as OpenAPI 3.1, made from what their handlers are declared to take."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Route

from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import JSON
from chordmq.version import VERSION

ABOUT = (
    "One durable partitioned log, over HTTP. What is published here is read by every other "
    "protocol of the node, and the other way round."
)
PATH_PARTS: dict[str, dict[str, Any]] = {
    "topic": {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"},
    "group": {"type": "string", "minLength": 1},
}
"""Parts of paths about which more is known than that they are texts."""
REFERENCES = "#/components/schemas/{name}"

Json = dict[str, Any]


class Complaint(msgspec.Struct, frozen=True):
    """The form that every error has."""

    error: str
    message: str


def document(routes: Iterable[BaseRoute]) -> Json:
    """Return the description of all routes."""
    plain = [one for one in routes if isinstance(one, Route) and one.include_in_schema]
    paths: dict[str, Json] = {}
    for route in plain:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method)
    described = {
        "openapi": "3.1.0",
        "info": {"title": "ChordMQ", "version": VERSION, "description": ABOUT},
        "paths": paths,
        "security": [{}, {"basic": []}, {"bearer": []}],
        "components": {
            "schemas": _components(plain),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }
    plain_json: Json = msgspec.json.decode(msgspec.json.encode(described))  # tuples are lists there
    return plain_json


def _operation(route: Route, method: str) -> Json:
    handler = route.handler if isinstance(route, Api) else route.endpoint
    about, _, more = (inspect.getdoc(handler) or "").partition("\n\n")
    operation: Json = {
        "operationId": f"{method.lower()}_{route.name}",
        "summary": about.replace("\n", " "),
        "tags": [_tag(route.path)],
        "parameters": [*_path_parameters(route.path)],
        "responses": {
            "default": {"description": "A refusal.", "content": _contents({JSON: Complaint})}
        },
    }
    if more:
        operation["description"] = more
    if isinstance(route, Api):
        operation["parameters"] += _query_parameters(route.query)
        if route.takes:
            operation["requestBody"] = {"required": True, "content": _contents(route.takes)}
        for status, kinds in route.answers.items():
            answer: Json = {"description": status.phrase}
            if kinds:
                answer["content"] = _contents(kinds)
            operation["responses"][str(int(status))] = answer
    else:
        operation["responses"] |= {
            "2XX": {"description": HTTPStatus.OK.phrase},
            "503": {"description": HTTPStatus.SERVICE_UNAVAILABLE.phrase},
        }
    return operation


def _tag(path: str) -> str:
    parts = path.split("/")
    return parts[2] if parts[1] == "v1" else "node"


def _path_parameters(path: str) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)", path):
        schema = PATH_PARTS.get(name, {"type": "string"})
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(query: type | None) -> Iterator[Json]:
    if query is None:
        return
    (_,), components = msgspec.json.schema_components([query], ref_template=REFERENCES)
    schema = components[query.__name__]
    for name, field in schema["properties"].items():
        shown = _without_null(field)
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": shown.pop("description", ""),
            "schema": shown,
        }


def _without_null(field: Json) -> Json:
    """Return the schema of a parameter: one that is not given is not there, never null."""
    shown = {key: value for key, value in field.items() if (key, value) != ("default", None)}
    choices = [choice for choice in shown.pop("anyOf", ()) if choice != {"type": "null"}]
    return shown | choices[0] if choices else shown


def _components(routes: Sequence[Route]) -> Json:
    types: list[Any] = [Complaint]
    for route in routes:
        if isinstance(route, Api):
            types += route.takes.values()
            types += (kind for kinds in route.answers.values() for kind in kinds.values())
    _, components = msgspec.json.schema_components(types, ref_template=REFERENCES)
    return components


def _contents(kinds: Mapping[str, Any]) -> Json:
    return {media: {"schema": _schema(media, kind)} for media, kind in kinds.items()}


def _schema(media: str, kind: Any) -> Json:
    if media == JSON:
        (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCES)
        return schema
    return {"type": "string", "format": "binary"} if kind is bytes else {"type": "string"}

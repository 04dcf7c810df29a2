"""Describes the registry's REST interface as OpenAPI 3.1, from the types that it takes."""

from typing import Any

import msgspec

from chordmq.topology.registry.nodes import Pin, Registration, Topology
from chordmq.version import VERSION

Json = dict[str, Any]

_REFERENCES = "#/components/schemas/{name}"
_NODE = {"name": "node", "in": "path", "required": True, "schema": {"type": "string"}}
_WAIT = {"name": "wait_s", "in": "query", "schema": {"type": "number", "minimum": 0, "maximum": 60}}
_KNOWN = {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}


class Complaint(msgspec.Struct, frozen=True):
    """The form that every refusal has."""

    error: str
    message: str


def document() -> Json:
    """Return the description of all routes."""
    kinds = [Registration, Pin, Topology, Complaint]
    _, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCES)
    tree = "Return the tree; with wait_s and If-None-Match, when there is another version."
    return {
        "openapi": "3.1.0",
        "info": {"title": "ChordMQ registry", "version": VERSION},
        "security": [{}, {"bearer": []}],
        "paths": {
            "/v1/topology": {
                "get": {
                    **_operation("show", tree),
                    "parameters": [_WAIT, _KNOWN],
                }
            },
            "/v1/nodes/{node}": {
                "parameters": [_NODE],
                "put": _operation(
                    "register", "Register a node, or say that it lives.", "Registration"
                ),
                "delete": _operation("leave", "Remove a node for good."),
            },
            "/v1/nodes/{node}/pin": {
                "parameters": [_NODE],
                "put": _operation("pin", "Decide the parent and role of a node.", "Pin"),
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(name: str, summary: str, takes: str | None = None) -> Json:
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "The tree.", "content": _content("Topology")},
            "default": {"description": "A refusal.", "content": _content("Complaint")},
        },
    }
    if name == "show":
        operation["responses"]["304"] = {"description": "Nothing has changed."}
    if takes is not None:
        operation["requestBody"] = {"required": True, "content": _content(takes)}
    return operation


def _content(kind: str) -> Json:
    return {"application/json": {"schema": {"$ref": _REFERENCES.format(name=kind)}}}

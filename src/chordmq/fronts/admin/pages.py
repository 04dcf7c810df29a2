"""The description of the API for programs, and one page of it for people."""

from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chordmq.fronts.admin.call import JSON
from chordmq.fronts.admin.openapi import document

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ChordMQ HTTP API</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
details {{ border-top: 1px solid #8884; padding: .4rem 0 }}
summary {{ cursor: pointer }}
code, pre {{ font: .9em ui-monospace, monospace }}
pre {{ overflow: auto; padding: .6rem; background: #8881; white-space: pre-wrap }}
b {{ display: inline-block; min-width: 4.5rem }}
h2 {{ margin-top: 2rem; text-transform: capitalize }}
table {{ border-collapse: collapse }}
td {{ padding: .1rem 1rem .1rem 0; vertical-align: top }}
</style>
<h1>ChordMQ HTTP API</h1>
<p>{about} Programs read <a href="openapi.json">openapi.json</a>.</p>
{groups}
</html>
"""
HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}


async def openapi(request: Request) -> Response:
    """Describe this API as OpenAPI 3.1."""
    return Response(msgspec.json.encode(document(request.app.routes)), media_type=JSON)


async def docs(request: Request) -> Response:
    """Show this API to people."""
    described = document(request.app.routes)
    groups: dict[str, list[str]] = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            block = _operation(path, method, operation)
            groups.setdefault(operation["tags"][0], []).append(block)
    sections = [f"<h2>{escape(tag)}</h2>\n{''.join(blocks)}" for tag, blocks in groups.items()]
    about = escape(described["info"]["description"])
    return HTMLResponse(PAGE.format(about=about, groups="\n".join(sections)), headers=HEADERS)


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<details><summary><b>{method.upper()}</b><code>{escape(path)}</code> "
        f"{escape(operation['summary'])}</summary>"
    ]
    if "description" in operation:
        parts.append(f"<p>{escape(operation['description'])}</p>")
    rows = [_parameter(parameter) for parameter in operation["parameters"]]
    if rows:
        parts.append(f"<table>{''.join(rows)}</table>")
    for title, content in _contents(operation):
        text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
        parts.append(f"<p>{escape(title)}</p><pre>{escape(text)}</pre>")
    return "".join([*parts, "</details>\n"])


def _parameter(parameter: dict[str, Any]) -> str:
    kind = parameter["schema"].get("type", "")
    about = parameter.get("description", "")
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(kind)}"
        f"<td>{escape(about)}</tr>"
    )


def _contents(operation: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        found.append((f"takes {media}", content["schema"]))
    for status, answer in operation["responses"].items():
        for media, content in answer.get("content", {}).items():
            if status != "default":
                found.append((f"answers {status} {media}", content["schema"]))
    return found


ROUTES = [Route("/openapi.json", openapi), Route("/docs", docs)]

"""Lists roles, makes them, and gives them to users and groups."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import fail, show_json, show_table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List roles, make them, and give them to users and groups.

    \b
      chordmq roles list
      chordmq roles give viewer User:alice
      chordmq roles give operator Group:ops
      chordmq roles save billing --allow read=topic:invoices* --allow read=group:billing
      chordmq roles take viewer User:alice

    Built in are admin, operator, producer, consumer and viewer.
    """,
)

Name = Annotated[str, typer.Argument(metavar="ROLE", help="The role.")]
Member = Annotated[str, typer.Argument(metavar="MEMBER", help="User:name or Group:name.")]


@app.command("list")
def list_roles(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List roles with their members and permissions.

    \b
      chordmq roles list
    """
    roles = call(url, "GET", "/v1/roles", as_json=as_json)["roles"]
    if as_json:
        show_json(roles)
        return
    rows = [(role["name"], _members(role), _permissions(role)) for role in roles]
    show_table(["ROLE", "MEMBERS", "ALLOWS"], rows)


@app.command()
def save(
    name: Name,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="OPERATION=KIND:NAME", help="May be repeated."),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a role, or replace what it allows; its members stay. A name may end in *.

    \b
      chordmq roles save billing --allow read=topic:invoices* --allow read=group:billing
      chordmq roles save topics --allow create=cluster
    """
    permissions = [_permission(text, as_json) for text in allow or []]
    if not permissions:
        fail("say what the role is to --allow", EXIT_USAGE, as_json=as_json)
    there = call(url, "GET", "/v1/roles", as_json=as_json)["roles"]
    members: list[str] = next((role["members"] for role in there if role["name"] == name), [])
    body = {"permissions": permissions, "members": members}
    _saved(call(url, "PUT", _path(name), body, as_json=as_json), as_json)


@app.command()
def delete(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Delete a role; a built-in one only loses its members.

    \b
      chordmq roles delete billing
    """
    call(url, "DELETE", _path(name), as_json=as_json)
    if as_json:
        show_json({"name": name, "deleted": True})
    else:
        print(f"deleted {name}")


@app.command()
def give(name: Name, member: Member, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Give a role to a user or to a group of users.

    \b
      chordmq roles give consumer User:alice
    """
    _saved(call(url, "PUT", _path(name, member), as_json=as_json), as_json)


@app.command()
def take(name: Name, member: Member, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Take a role away; open connections feel it at once.

    \b
      chordmq roles take consumer User:alice
    """
    _saved(call(url, "DELETE", _path(name, member), as_json=as_json), as_json)


def _path(name: str, member: str | None = None) -> str:
    path = f"/v1/roles/{quote(name, safe='')}"
    return path if member is None else f"{path}/members/{quote(member, safe='')}"


def _permission(text: str, as_json: bool) -> dict[str, str]:
    operation, equals, resource = text.partition("=")
    kind, _, name = resource.partition(":")
    if kind == "cluster":
        name = name or "kafka-cluster"
    if not equals or not kind or not name:
        fail(f"{text!r} is not of the form read=topic:name", EXIT_USAGE, as_json=as_json)
    is_prefix = name.endswith("*") and name != "*"
    return {
        "operation": operation,
        "kind": kind,
        "name": name[:-1] if is_prefix else name,
        "match": "prefixed" if is_prefix else "literal",
    }


def _saved(role: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(role)
    else:
        print(f"{role['name']} is given to {_members(role)}")


def _members(role: dict[str, Any]) -> str:
    return ", ".join(sorted(role["members"])) or "nobody"


def _permissions(role: dict[str, Any]) -> str:
    allowed: dict[str, list[str]] = {}
    for one in role["permissions"]:
        name = one["name"] + ("*" if one["match"] == "prefixed" else "")
        resource = one["kind"] if one["kind"] == "cluster" else f"{one['kind']}:{name}"
        allowed.setdefault(resource, []).append(one["operation"])
    return "; ".join(f"{'/'.join(names)} {resource}" for resource, names in allowed.items())

"""Lists, adds, removes and explains ACLs; exports and imports them with roles and quotas."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import fail, show_json, show_table
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.client.permissions import Acl

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List, add, remove and explain ACLs.

    \b
      chordmq acls add User:alice --allow read --topic orders
      chordmq acls add User:alice --allow read --group billing-
      chordmq acls add User:bob --deny all --topic 'secret*'
      chordmq acls list --topic orders
      chordmq acls why User:alice read topic:orders
      chordmq acls export > acls.json

    A name that ends in * is a prefix; * alone means every resource of its kind.
    """,
)

KINDS = ("topic", "group", "transactional-id")
COLUMNS = ["PRINCIPAL", "EFFECT", "OPERATION", "RESOURCE", "NAME", "HOST"]

Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="User:name or Group:name.")]
Of = Annotated[
    str | None, typer.Option("--principal", metavar="PRINCIPAL", help="User:name or Group:name.")
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic, or prefix*.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group, or prefix*.")]
Transactional = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="NAME", help="A transactional id, or prefix*."),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="From there only.")]


@app.command("list")
def list_acls(
    principal: Of = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    cluster: OfCluster = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """List ACLs; with a resource, all that are about it, prefixes and * included.

    \b
      chordmq acls list
      chordmq acls list --topic orders
      chordmq acls list --principal User:alice --json
    """
    named = _resource(topic, group, transactional_id, cluster)

    async def work() -> "list[Acl]":
        from chordmq.client.admin import Admin
        from chordmq.client.permissions import AclFilter
        from chordmq.client.permissions import list_acls as ask

        kind, name, match = named or (None, None, None)
        wanted = AclFilter(principal=principal, kind=kind, name=name, covering=True)
        if match == "prefixed":
            wanted = AclFilter(principal=principal, kind=kind, name=name, match=match)
        async with Admin(address(bootstrap), connection()) as admin:
            return await ask(admin.cluster, wanted)

    _show(run(work(), as_json=as_json), as_json)


@app.command()
def add(
    principal: Principal,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="OPERATION", help="May be repeated.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="OPERATION", help="May be repeated.")
    ] = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    cluster: OfCluster = False,
    host: Host = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Allow or deny operations: read, write, create, delete, alter, describe, all and others.

    \b
      chordmq acls add User:alice --allow read --allow write --topic 'orders*'
      chordmq acls add 'User:*' --deny all --cluster --host 10.0.0.7
    """
    named = _resource(topic, group, transactional_id, cluster)
    if named is None or not (allow or deny):
        fail("say what to --allow or --deny, and on which resource", EXIT_USAGE, as_json=as_json)

    async def work() -> "list[Acl]":
        from chordmq.client.admin import Admin
        from chordmq.client.permissions import OPERATIONS, Acl, add_acls

        kind, name, match = named
        wishes = [("allow", one) for one in allow or []] + [("deny", one) for one in deny or []]
        for _, operation in wishes:
            if operation not in OPERATIONS:
                raise ValueError(f"{operation!r} is none of {', '.join(OPERATIONS)}")
        acls = [
            Acl(
                principal=principal,
                operation=operation,
                kind=kind,
                name=name,
                match=match,
                host=host or "*",
                effect=effect,
            )
            for effect, operation in wishes
        ]
        async with Admin(address(bootstrap), connection()) as admin:
            await add_acls(admin.cluster, acls)
        return acls

    _show(run(work(), as_json=as_json), as_json)


@app.command()
def remove(
    principal: Of = None,
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="OPERATION", help="Only this operation.")
    ] = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    cluster: OfCluster = False,
    host: Host = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every ACL.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Remove the ACLs that have exactly the name given, and print them.

    \b
      chordmq acls remove --principal User:alice
      chordmq acls remove --topic 'orders*' --operation write
    """
    named = _resource(topic, group, transactional_id, cluster)
    if not (principal or operation or named or host or everything):
        fail("say which ACLs to remove, or --all", EXIT_USAGE, as_json=as_json)

    async def work() -> "list[Acl]":
        from chordmq.client.admin import Admin
        from chordmq.client.permissions import OPERATIONS, AclFilter, remove_acls

        if operation is not None and operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is none of {', '.join(OPERATIONS)}")
        kind, name, match = named or (None, None, None)
        wanted: AclFilter = AclFilter(
            principal=principal, operation=operation, kind=kind, name=name, match=match, host=host
        )
        async with Admin(address(bootstrap), connection()) as admin:
            return await remove_acls(admin.cluster, wanted)

    _show(run(work(), as_json=as_json), as_json)


@app.command()
def why(
    principal: Principal,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="read, write, …")],
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="topic:orders, cluster, …")],
    host: Host = None,
    groups: Annotated[
        list[str] | None, typer.Option("--member-of", metavar="GROUP", help="May be repeated.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Say whether somebody may do something, and which rule decides. Denied ends with status 1.

    \b
      chordmq acls why User:alice read topic:orders
      chordmq acls why User:alice alter cluster --member-of ops
    """
    question = {"principal": principal, "operation": operation, "resource": resource}
    if host:
        question["host"] = host
    question["groups"] = ",".join(groups or [])
    answer = call(url, "GET", f"/v1/why?{urlencode(question)}", as_json=as_json)
    if as_json:
        show_json(answer)
    else:
        print(f"{'allowed' if answer['is_allowed'] else 'denied'}: {answer['reason']}")
        if answer["rule"]:
            _show_rows([answer["rule"]])
            if answer["rule"].get("role"):
                print(f"from the role {answer['rule']['role']}")
    if not answer["is_allowed"]:
        raise typer.Exit(EXIT_REFUSED)


@app.command("export")
def export_all(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Print all ACLs, roles and quotas as JSON.

    \b
      chordmq acls export > acls.json
    """
    show_json(call(url, "GET", "/v1/permissions", as_json=as_json))


@app.command("import")
def import_all(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `acls export` printed.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove what the file does not name.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Add the ACLs, roles and quotas of a JSON file.

    \b
      chordmq acls import acls.json
      chordmq acls import acls.json --replace
    """
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        fail(f"{file}: {error}", EXIT_USAGE, as_json=as_json)
    path = f"/v1/permissions?replace={'true' if replace else 'false'}"
    after = call(url, "PUT", path, document, as_json=as_json)
    if as_json:
        show_json(after)
        return
    counts = ", ".join(f"{len(after[what])} {what}" for what in ("acls", "roles", "quotas"))
    print(f"there are now {counts}")


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[str, str, str] | None:
    """Return kind, name and way of matching of the one resource named; None if there is none."""
    named = [
        (kind, name)
        for kind, name in zip(KINDS, (topic, group, transactional_id), strict=True)
        if name is not None
    ]
    if cluster:
        named.append(("cluster", "kafka-cluster"))
    if len(named) > 1:
        raise typer.BadParameter("name one resource at a time")
    if not named:
        return None
    kind, name = named[0]
    if name.endswith("*") and name != "*":
        return kind, name[:-1], "prefixed"
    return kind, name, "literal"


def _show(acls: "list[Acl]", as_json: bool) -> None:
    from dataclasses import asdict

    rows = [asdict(acl) for acl in acls]
    if as_json:
        show_json(rows)
    else:
        _show_rows(rows)


def _show_rows(rows: list[dict[str, Any]]) -> None:
    show_table(
        COLUMNS,
        [
            (
                row["principal"],
                row["effect"],
                row["operation"],
                row["kind"],
                row["name"] + ("*" if row["match"] == "prefixed" else ""),
                row["host"],
            )
            for row in rows
        ],
    )

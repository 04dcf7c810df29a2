"""Lists and sets how much users, client ids and addresses may send, receive and ask for."""

from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address, pairs
from chordmq.cli.output import fail, show_json, show_table
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.client.permissions import Quota

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List and set quotas of users and client ids.

    \b
      chordmq quotas list
      chordmq quotas set --for-user alice --set producer_byte_rate=1048576
      chordmq quotas set --client-id '<default>' --set request_percentage=50
      chordmq quotas set --for-user alice --reset producer_byte_rate
      chordmq quotas set --ip '<default>' --set connection_creation_rate=20

    Limits: producer_byte_rate and consumer_byte_rate in bytes per second, request_percentage of the
    node's time, controller_mutation_rate in partitions made or deleted per second; of addresses
    connection_creation_rate in connections per second.
    """,
)

User = Annotated[
    str, typer.Option("--for-user", metavar="NAME", help="The user; <default> for each other.")
]
Client = Annotated[
    str, typer.Option("--client-id", metavar="ID", help="The client id; <default> for each other.")
]
Ip = Annotated[
    str, typer.Option("--ip", metavar="ADDRESS", help="The address; <default> for each.")
]


@app.command("list")
def list_quotas(bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """List all quotas.

    \b
      chordmq quotas list
    """
    _show(run(_changed(address(bootstrap)), as_json=as_json), as_json)


@app.command("set")
def set_quotas(
    user: User = "",
    client_id: Client = "",
    ip: Ip = "",
    limits: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=NUMBER", help="Limit; may be repeated."),
    ] = None,
    resets: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Limit to remove.")
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Set or remove limits; connections that are open feel it at once.

    \b
      chordmq quotas set --for-user alice --set producer_byte_rate=1048576
    """
    if not (user or client_id or ip) or not (limits or resets):
        fail("say for whom, and what to --set or --reset", EXIT_USAGE, as_json=as_json)
    changes: dict[str, float | None] = dict.fromkeys(resets or [])
    for name, text in pairs(limits).items():
        try:
            changes[name] = float(text)
        except ValueError:
            fail(f"{name}: {text!r} is not a number", EXIT_USAGE, as_json=as_json)
    work = _changed(address(bootstrap), changes, user=user, client=client_id, ip=ip)
    _show(run(work, as_json=as_json), as_json)


async def _changed(
    bootstrap: str, changes: dict[str, float | None] | None = None, **whom: str
) -> "list[Quota]":
    from chordmq.client.admin import Admin
    from chordmq.client.permissions import list_quotas, set_quota

    async with Admin(bootstrap, connection()) as admin:
        if changes:
            await set_quota(admin.cluster, changes, **whom)
        return await list_quotas(admin.cluster)


def _show(quotas: "list[Quota]", as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    "user": quota.user,
                    "client": quota.client,
                    "ip": quota.ip,
                    "limits": dict(quota.limits),
                }
                for quota in quotas
            ]
        )
        return
    show_table(
        ["USER", "CLIENT ID", "ADDRESS", "LIMIT", "#VALUE"],
        [
            (quota.user or None, quota.client or None, quota.ip or None, name, f"{value:,.10g}")
            for quota in quotas
            for name, value in quota.limits.items()
        ],
    )

"""The table of the subcommands of `chordmq`.

A subcommand is loaded when it is asked for, and what it needs when it runs: help appears without
the rest.
"""

from importlib import import_module
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from chordmq.cli.identity import (
    Mechanism,
    Password,
    Tls,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    User,
)
from chordmq.cli.options import Json, RootBootstrap, forms, with_forms
from chordmq.version import VERSION

COMMANDS = {
    "up": ("chordmq.cli.serve", "up"),
    "serve": ("chordmq.cli.serve", "serve"),
    "topics": ("chordmq.cli.topics", "app"),
    "produce": ("chordmq.cli.messages", "produce"),
    "consume": ("chordmq.cli.messages", "consume"),
    "run": ("chordmq.cli.run", "run_app"),
    "groups": ("chordmq.cli.groups", "app"),
    "consumers": ("chordmq.cli.consumers", "consumers"),
    "queues": ("chordmq.cli.queues", "queues"),
    "routes": ("chordmq.cli.routes", "app"),
    "devices": ("chordmq.cli.devices", "app"),
    "cluster": ("chordmq.cli.cluster", "app"),
    "registry": ("chordmq.cli.registry", "app"),
    "topology": ("chordmq.cli.topology", "app"),
    "mirror": ("chordmq.cli.mirror", "app"),
    "gateway": ("chordmq.cli.gateway", "gateway"),
    "consumer-app": ("chordmq.cli.consumer_app", "consumer_app"),
    "users": ("chordmq.cli.users", "app"),
    "roles": ("chordmq.cli.roles", "app"),
    "acls": ("chordmq.cli.acls", "app"),
    "quotas": ("chordmq.cli.quotas", "app"),
    "certs": ("chordmq.cli.certs", "app"),
    "keys": ("chordmq.cli.keys", "app"),
    "audit": ("chordmq.cli.audit", "app"),
    "archive": ("chordmq.cli.archive", "app"),
    "sql": ("chordmq.cli.sql", "sql"),
    "pipeline": ("chordmq.cli.pipeline", "app"),
    "cdc": ("chordmq.cli.cdc", "app"),
    "backup": ("chordmq.cli.backup", "app"),
    "top": ("chordmq.cli.top", "top"),
    "demo": ("chordmq.cli.demo", "demo"),
    "bench": ("chordmq.cli.bench", "app"),
    "profiles": ("chordmq.cli.profiles", "app"),
    "config": ("chordmq.cli.config", "app"),
    "doctor": ("chordmq.cli.doctor", "doctor"),
}
"""Name to module and the function or group in it."""


class Commands(TyperGroup):
    """The subcommands of the table, in its order, and the forms of output before them."""

    def __init__(self, *, params: list[click.Parameter], **rest: Any) -> None:
        super().__init__(params=[*params, *forms()], **rest)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names for help and completion."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one subcommand, or return None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            function = found
            found = typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(cmd_name)(function)
        command = typer.main.get_command(found)
        command.name = cmd_name
        return with_forms(command)


app = typer.Typer(
    name="chordmq",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"chordmq {VERSION}")
        raise typer.Exit


def _use_profile(name: str | None) -> str | None:
    if name is None:
        return None
    from chordmq.cli.profiles import use

    return use(name)


@app.callback()
def chordmq(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            callback=_use_profile,
            is_eager=True,
            envvar="CHORDMQ_PROFILE",
            show_envvar=False,
            help="Use what `chordmq profiles save` has kept. Or set CHORDMQ_PROFILE.",
        ),
    ] = None,
    bootstrap: RootBootstrap = None,
    as_json: Json = False,
    user: User = None,
    password: Password = None,
    token: Token = None,
    mechanism: Mechanism = None,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """One durable partitioned log, every protocol your company already speaks.

    \b
      chordmq up                                 start a node here and now
      chordmq topics create hello                make a topic
      echo world | chordmq produce hello         write to it
      chordmq consume hello                      read from it
      chordmq groups lag my-app                  see how far a group is behind
      chordmq users add alice                    let somebody log in
      chordmq doctor                             see what could go wrong here

    Exit status: 0 all well, 1 refused or failed, 2 wrong usage, 3 cannot connect.
    """

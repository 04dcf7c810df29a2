"""The options that every command understands, before or after its name."""

from typing import Annotated

import click
import typer

from chordmq.cli.output import FORM, Form

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def _inherit(ctx: typer.Context, param: typer.CallbackParam, value: object) -> object:
    """Take what stands before the subcommand when nothing stands after it."""
    root = ctx.find_root()
    return value or (root.params.get(str(param.name)) if root is not ctx else None)


def _json(ctx: typer.Context, param: typer.CallbackParam, value: bool) -> bool:
    """Say whether a document is wanted, in which form ever; `-o` and `--yaml` decide first."""
    chosen = ctx.meta.get(FORM)
    return bool(_inherit(ctx, param, value)) if chosen is None else chosen in Form.DOCUMENTS


def _choose(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    """Remember the form that `-o NAME` or `--yaml` asks for; a later context inherits it."""
    if value:
        ctx.meta[FORM] = Form.YAML if value is True else value


def forms() -> list[click.Parameter]:
    """Return the options that every command with `--json` has beside it."""
    return [
        click.Option(
            ["--yaml"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_choose,
            help="Print YAML instead of tables.",
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(Form.ALL),
            is_eager=True,
            expose_value=False,
            callback=_choose,
            help="Form of the output; wide shows more columns and cuts nothing.",
        ),
    ]


def with_forms(command: click.Command) -> click.Command:
    """Give a command, or each command of a group, the forms of output beside `--json`."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            with_forms(one)
    taken = {flag for param in command.params for flag in param.opts}
    if "--json" in taken and "-o" not in taken:
        command.params += forms()
    return command


BOOTSTRAP_HELP = (
    "Broker to ask first; several with commas. Or set CHORDMQ_BOOTSTRAP.  "
    f"[default: {DEFAULT_BOOTSTRAP}]"
)

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", callback=_inherit, help=BOOTSTRAP_HELP),
]
# Only the root reads the environment; there an option before the subcommand beats it.
RootBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="CHORDMQ_BOOTSTRAP",
        show_envvar=False,
        help=BOOTSTRAP_HELP,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=_json, help="Print JSON for programs instead of tables."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Topic setting; may be repeated."),
]


def address(bootstrap: str | None) -> str:
    """Return the broker to ask, the default where none was named."""
    return bootstrap or DEFAULT_BOOTSTRAP


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Read options of the form NAME=VALUE."""
    found = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE")
        found[name.strip()] = value.strip()
    return found

"""The options that every command understands, before or after its name."""

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def _inherit(ctx: typer.Context, param: typer.CallbackParam, value: object) -> object:
    """Take what stands before the subcommand when nothing stands after it."""
    root = ctx.find_root()
    return value or (root.params.get(str(param.name)) if root is not ctx else None)


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
    typer.Option("--json", callback=_inherit, help="Print JSON for programs instead of tables."),
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

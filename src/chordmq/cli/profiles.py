"""Names for brokers: a profile is a set of the variables CHORDMQ_… under a name.

`chordmq --profile prod …` behaves as if they were set; what is given on the command line or in the
environment comes first. The file is TOML, one table for each profile, for its owner's eyes only.
"""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.options import Json
from chordmq.cli.output import fail, say, show_json, show_table

FIELDS = (
    "bootstrap",
    "url",
    "user",
    "password",
    "token",
    "mechanism",
    "tls",
    "tls_ca",
    "tls_certificate",
    "tls_key",
)
SECRETS = ("password", "token")

Profile = dict[str, str]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Keep the addresses of several clusters, each under a name.

    \b
      chordmq profiles save prod bootstrap=mq.example:9092 url=https://mq.example user=me
      chordmq --profile prod topics list
      export CHORDMQ_PROFILE=prod
    """,
)


def path() -> Path:
    """Return where profiles are kept."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "chordmq" / "profiles.toml"


def read() -> dict[str, Profile]:
    """Return all profiles; end the command if the file cannot be understood."""
    import tomllib

    try:
        found = tomllib.loads(path().read_text())
        return {
            name: {key: str(value) for key, value in fields.items()}
            for name, fields in found.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        fail(f"{path()}: {error}", EXIT_REFUSED)


def use(name: str | None) -> str | None:
    """Put a profile's values where the other options look for what was not given."""
    if name is None:
        return None
    known = read()
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        fail(f"there is no profile {name}; {path()} has {there}", EXIT_USAGE)
    for field, value in known[name].items():
        os.environ.setdefault(f"CHORDMQ_{field.upper()}", value)
    return name


@app.command("list")
def list_profiles(as_json: Json = False) -> None:
    """Show the profiles, without their secrets.

    \b
      chordmq profiles list
    """
    shown = {
        name: {key: "***" if key in SECRETS else value for key, value in fields.items()}
        for name, fields in read().items()
    }
    if as_json:
        show_json(shown)
        return
    if not shown:
        say(f"{path()} has no profile; make one with `chordmq profiles save`")
        return
    rows = [
        (name, " ".join(f"{key}={value}" for key, value in fields.items()))
        for name, fields in sorted(shown.items())
    ]
    show_table(["PROFILE", "VALUES"], rows)


@app.command()
def save(
    name: Name,
    values: Annotated[
        list[str], typer.Argument(metavar="FIELD=VALUE...", help=f"Of {', '.join(FIELDS)}.")
    ],
) -> None:
    """Make or replace a profile.

    \b
      chordmq profiles save prod bootstrap=mq.example:9092 url=https://mq.example user=me
    """
    profile = {}
    for text in values:
        field, equals, value = text.partition("=")
        if not equals or field not in FIELDS:
            raise typer.BadParameter(f"{text!r}: write FIELD=VALUE with {', '.join(FIELDS)}")
        profile[field] = value
    _write(read() | {name: profile})


@app.command()
def remove(name: Name) -> None:
    """Forget a profile.

    \b
      chordmq profiles remove prod
    """
    known = read()
    if known.pop(name, None) is None:
        fail(f"there is no profile {name}", EXIT_REFUSED)
    _write(known)


def _write(profiles: dict[str, Profile]) -> None:
    # A JSON string is a TOML string, too.
    tables = [
        "\n".join([f"[{json.dumps(name)}]", *(f"{k} = {json.dumps(v)}" for k, v in fields.items())])
        for name, fields in sorted(profiles.items())
    ]
    place = path()
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_suffix(".tmp")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("\n\n".join(tables) + "\n")
    partial.rename(place)

"""The command `chordmq`: the table of its subcommands.

What a command needs beyond its options is imported when it runs, so that help appears at once.
"""

import os
import sys
from typing import Annotated

import typer

from chordmq.cli import bench, doctor, groups, messages, serve, topics
from chordmq.cli.options import Json, RootBootstrap
from chordmq.cli.output import EXIT_INTERRUPTED, EXIT_REFUSED
from chordmq.version import VERSION

app = typer.Typer(
    name="chordmq",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(serve.up)
app.command()(serve.serve)
app.command()(messages.produce)
app.command()(messages.consume)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(bench.app, name="bench")
app.command()(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"chordmq {VERSION}")
        raise typer.Exit


@app.callback()
def chordmq(
    bootstrap: RootBootstrap = None,
    as_json: Json = False,
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
      chordmq doctor                             see what could go wrong here

    Exit status: 0 all well, 1 refused or failed, 2 wrong usage, 3 cannot connect.
    """


def main() -> None:
    """Run the command line; whatever goes wrong ends in one line, never in a traceback."""
    try:
        app(prog_name="chordmq")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_REFUSED)
    except Exception as error:
        if os.environ.get("CHORDMQ_DEBUG"):
            raise
        print(f"chordmq: {type(error).__name__}: {error} (set CHORDMQ_DEBUG=1)", file=sys.stderr)
        sys.exit(EXIT_REFUSED)

"""The command `chordmq`: the table of its subcommands.

What a command needs beyond its options is imported when it runs, so that help appears at once.
"""

import typer

from chordmq.cli import serve

app = typer.Typer(name="chordmq", no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(serve.up)
app.command()(serve.serve)


def main() -> None:
    """Run the command line."""
    app()

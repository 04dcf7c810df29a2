"""The command `chordmq`: whatever goes wrong ends in one line, never in a traceback."""

import os
import sys

from chordmq.cli import plain
from chordmq.cli.exits import EXIT_INTERRUPTED, EXIT_REFUSED

FOR_THE_PARSER = ("CHORDMQ_PROFILE", "_CHORDMQ_COMPLETE")
"""Variables of the environment that mean something to the parser of command lines."""


def main() -> None:
    """Run the command line."""
    try:
        run(sys.argv[1:])
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


def run(words: list[str]) -> None:
    """Run a node at once if nothing else is asked for, else what the parser finds."""
    given = plain.read(words)
    if given is None or any(name in os.environ for name in FOR_THE_PARSER):
        from chordmq.cli.commands import app

        app(prog_name="chordmq")
    else:
        from chordmq.cli.lifetime import serve

        serve(*given)

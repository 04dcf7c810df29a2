"""Runs the message handlers of a Python module until told to stop."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, address
from chordmq.cli.output import fail
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.client.app import ConsumerApp


def run_app(
    place: Annotated[
        str, typer.Argument(metavar="MODULE[:APP]", help="Where the consumers are: module:app.")
    ],
    bootstrap: Bootstrap = None,
    trace: Annotated[
        str,
        typer.Option(
            "--trace",
            metavar="URL",
            envvar="CHORDMQ_TRACING_ENDPOINT",
            show_envvar=False,
            help="OpenTelemetry collector that is told of each message.  "
            "Or set CHORDMQ_TRACING_ENDPOINT.",
        ),
    ] = "",
) -> None:
    """Process messages with your own functions.

    \b
      from chordmq.client.handlers import consumer

      @consumer("orders", group="billing", concurrency=4)
      def bill(message):
          print(message.key, message.value)

    \b
      chordmq run billing               all functions with @consumer in billing.py
      chordmq run billing:app           the ConsumerApp called app

    Ctrl-C finishes what is being processed, commits it and ends.
    """
    from chordmq import logs
    from chordmq.client.worker import Stopped

    logs.configure(logs.LogsSettings(level="warning"))
    sys.path.insert(0, str(Path.cwd()))
    try:
        app = load(place)
    except (ImportError, ValueError) as error:
        fail(str(error), EXIT_USAGE)
    names = ", ".join(f"{one.name} ({one.topic})" for one in app.handlers)
    print(f"running {names}; stop with Ctrl-C", file=sys.stderr)
    try:
        run(_served(app, address(bootstrap), trace))
    except Stopped as error:
        fail(str(error), EXIT_REFUSED)


async def _served(app: "ConsumerApp", bootstrap: str, endpoint: str) -> None:
    """Process messages until a signal; with an endpoint, tell a collector of each."""
    from chordmq.tracing.settings import TracingSettings

    app.tracing = TracingSettings(endpoint=endpoint, service="chordmq run").open()
    try:
        await app.serve_until_signal(bootstrap, connection())
    finally:
        if app.tracing is not None:
            await app.tracing.close()


def load(place: str) -> "ConsumerApp":
    """Return the application that `module:app` names, or raise ImportError or ValueError."""
    from chordmq.client.app import app_in

    module, _, name = place.partition(":")
    return app_in(import_module(module), name)

"""Runs a node until told to stop."""

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.options import DEFAULT_BOOTSTRAP
from chordmq.cli.output import say

if TYPE_CHECKING:
    import asyncio

    from chordmq.cli.companion import Companion
    from chordmq.config import Config
    from chordmq.node import Node

EXIT_CANNOT_START = 1
EXIT_BAD_SETTING = 2
EXIT_FAULT = 70
EXIT_FORCED = 130
YOUNG_OBJECTS_MAX = 10_000
"""Objects that are made before the interpreter looks for those that nobody uses any more."""

Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Change one setting, such as kafka.port=19092."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen beyond this machine although nobody authenticates."),
]


WithPipeline = Annotated[
    bool | None,
    typer.Option(
        "--pipeline/--no-pipeline",
        help="Run the data pipeline on local Spark beside the node.  [default: if it is installed]",
    ),
]


Nodes = Annotated[
    int,
    typer.Option(
        "--nodes", "-n", min=1, max=9, help="Nodes of a cluster on this machine, with an etcd."
    ),
]


def up(
    assignments: Assignments = None,
    insecure: Insecure = False,
    pipeline: WithPipeline = None,
    nodes: Nodes = 1,
) -> None:
    """Start everything with no configuration; data goes to ./data.

    Then, in another terminal:

    \b
      chordmq topics create hello
      echo world | chordmq produce hello
      chordmq consume hello

    With --nodes 3 a whole cluster starts, whose nodes replicate everything three times.
    """
    config = read_config(None, assignments or [], insecure)
    if nodes > 1:
        from chordmq.cli.local_cluster import run_cluster

        given = [*(assignments or []), *(["insecure=true"] if insecure else [])]
        run_cluster(config, nodes, given)
        return
    if pipeline is None:
        pipeline = can_run_spark()
    run(config, welcome, companions_for if pipeline else no_companions)


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML file with the settings.")
    ] = None,
    assignments: Assignments = None,
    insecure: Insecure = False,
) -> None:
    """Run one node with your configuration.

    A setting comes from --set, else from the environment (CHORDMQ_KAFKA_PORT for kafka.port), else
    from the file, where ${NAME:default} takes a variable of the environment, else from its default.

    \b
      chordmq serve --config node.yaml
      chordmq serve --set kafka.port=19092 --set data_dir=/var/lib/chordmq
    """
    run(read_config(config, assignments or [], insecure), announce)


def load_structlog() -> None:
    """Load structlog without rich, which it wants only to colour tracebacks.

    Rich takes longer to load than the node's own modules together.
    """
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]
        import structlog  # noqa: F401

        del sys.modules["rich"]


def read_config(file: Path | None, assignments: list[str], insecure: bool) -> "Config":
    """Read the configuration, or end the program with the reason why it cannot be used."""
    load_structlog()
    from chordmq.config import load
    from chordmq.errors import InvalidSetting

    try:
        return load(
            file,
            environment=os.environ,
            assignments=[*assignments, *(["insecure=true"] if insecure else [])],
        )
    except InvalidSetting as error:
        print(f"chordmq: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_BAD_SETTING) from None


def can_run_spark() -> bool:
    """Return whether Spark and the Java that it needs are there."""
    return find_spec("pyspark") is not None and shutil.which("java") is not None


def no_companions(node: "Node") -> "list[Companion]":
    """Run nothing beside a node."""
    return []


def companions_for(node: "Node") -> "list[Companion]":
    """Run the data pipeline beside a node."""
    from chordmq.cli.companion import Companion

    about = node.info()
    directory, archive = (Path(about["data_dir"]) / name for name in ("pipeline", "archive"))
    chordmq = [sys.executable, "-m", "chordmq", "-b", about["kafka"]]
    command = [*chordmq, "pipeline", "run", "all"]
    command += ["--directory", str(directory), "--archive", str(archive)]
    return [Companion("data pipeline", command, directory / "pipeline.log")]


def run(
    config: "Config",
    started: Callable[["Node"], None],
    beside: "Callable[[Node], list[Companion]]" = no_companions,
) -> None:
    """Run a node until SIGTERM or SIGINT; a second signal ends it without waiting."""
    import structlog
    import uvloop

    from chordmq import logs
    from chordmq.errors import CannotStart, ChordMQError

    logs.configure(config.logs)
    log = structlog.get_logger(__name__)
    allow_many_files()
    try:
        uvloop.run(until_stopped(config, started, beside))
    except (CannotStart, ChordMQError) as error:
        print(f"chordmq: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_CANNOT_START) from None
    except Exception:
        log.exception("the node failed")
        raise typer.Exit(EXIT_FAULT) from None


async def until_stopped(
    config: "Config",
    started: Callable[["Node"], None],
    beside: "Callable[[Node], list[Companion]]",
) -> None:
    """Run a node, and what stands beside it, until the first signal."""
    import asyncio
    import gc

    from chordmq.cli.companion import keep_running
    from chordmq.clock import SystemClock
    from chordmq.node import running

    stopped, changed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopped.is_set():
            os._exit(EXIT_FORCED)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with running(config, SystemClock()) as node:
        loop.add_signal_handler(signal.SIGHUP, changed.set)
        gc.freeze()  # modules and logs stay: looking at them again and again would cost the clients
        gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)  # messages come by the thousand in one turn
        started(node)
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(reload_when(changed, node))]
            others += [tasks.create_task(keep_running(one, say)) for one in beside(node)]
            await stopped.wait()
            for other in others:
                other.cancel()


async def reload_when(changed: "asyncio.Event", node: "Node") -> None:
    """Have the node read its certificates again on each signal."""
    while True:
        await changed.wait()
        changed.clear()
        await node.reload()


def allow_many_files() -> None:
    """Raise the limit of open files as far as this user may: each connection and segment is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def process_age_s() -> float:
    """Return the seconds since the operating system started this process."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_ticks = int(after_name[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def announce(node: "Node") -> None:
    """Log that the node serves clients."""
    import structlog

    about = node.info()
    structlog.get_logger(__name__).info("ready", **about, start_ms=round(process_age_s() * 1000))


def shown_command(kafka: str) -> str:
    """Return how to call this program from here, so that it finds the node."""
    name = "chordmq"
    if shutil.which(name) is None:
        beside = Path(sys.executable).parent / name
        here = Path.cwd()
        name = str(beside.relative_to(here) if beside.is_relative_to(here) else beside)
    return name if kafka == DEFAULT_BOOTSTRAP else f"{name} -b {kafka}"


def welcome(node: "Node") -> None:
    """Tell people where the node listens and what to try first."""
    from rich.console import Console
    from rich.panel import Panel

    about = node.info()
    command = shown_command(about["kafka"])
    lines = [
        f"Kafka clients   [bold]{about['kafka']}[/]",
        f"Web console     [bold]http://{about['http']}/[/]",
        f"Health, metrics [bold]http://{about['http']}/metrics[/]",
        f"MQTT, AMQP      [bold]{about['mqtt']}[/], [bold]{about['amqp']}[/]",
        f"Plain TCP       [bold]{about['framed']}[/]",
        f"Data            {about['data_dir']}",
        "",
        "Try, in another terminal:",
        f"  {command} topics create hello",
        f"  echo world | {command} produce hello",
        f"  {command} consume hello",
        f"  kcat -b {about['kafka']} -L",
        "",
        "Ctrl-C stops the node.",
    ]
    title = f"ChordMQ {about['version']} is ready ({process_age_s():.2f} s)"
    Console().print(Panel("\n".join(lines), title=title, expand=False, padding=(1, 2)))

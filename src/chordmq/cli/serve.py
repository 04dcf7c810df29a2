"""Runs a node until told to stop."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli import lifetime
from chordmq.cli.lifetime import Work, process_age_s, read_config, run
from chordmq.cli.options import DEFAULT_BOOTSTRAP
from chordmq.cli.output import say
from chordmq.cli.plain import CONFIG, INSECURE, SET

if TYPE_CHECKING:
    from chordmq.node import Node

Assignments = Annotated[
    list[str] | None,
    typer.Option(SET, metavar="NAME=VALUE", help="Change one setting, such as kafka.port=19092."),
]
Insecure = Annotated[
    bool,
    typer.Option(INSECURE, help="Listen beyond this machine although nobody authenticates."),
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
    run(config, welcome, pipeline_beside if pipeline else lifetime.nothing)


def serve(
    config: Annotated[
        Path | None, typer.Option(*CONFIG, help="YAML file with the settings.")
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
    lifetime.serve(config, assignments or [], insecure)


def can_run_spark() -> bool:
    """Return whether Spark and the Java that it needs are there."""
    return find_spec("pyspark") is not None and shutil.which("java") is not None


def pipeline_beside(node: "Node") -> list[Work]:
    """Run the data pipeline beside a node."""
    from chordmq.cli.companion import Companion, keep_running

    about = node.info()
    directory, archive = (Path(about["data_dir"]) / name for name in ("pipeline", "archive"))
    chordmq = [sys.executable, "-m", "chordmq", "-b", about["kafka"]]
    command = [*chordmq, "pipeline", "run", "all"]
    command += ["--directory", str(directory), "--archive", str(archive)]
    pipeline = Companion("data pipeline", command, directory / "pipeline.log")
    return [keep_running(pipeline, say)]


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

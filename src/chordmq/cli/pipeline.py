"""Runs the data pipeline on Spark: telemetry, analytics."""

import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from chordmq.cli.options import Bootstrap, address
from chordmq.cli.output import EXIT_USAGE, fail, say

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Run the data pipeline on Spark.

    \b
    telemetry   device readings, cleaned, to the store; threshold alerts; bad ones to <topic>.dlq
    analytics   windowed aggregates, values unlike the others, silent devices

    \b
      chordmq pipeline run all
      chordmq pipeline run telemetry --mongodb mongodb://localhost:27017
      chordmq pipeline run analytics --master spark://host:7077
    """,
)

Jobs = Annotated[list[str], typer.Argument(help="telemetry, analytics, or all.")]
Directory = Annotated[
    Path, typer.Option("--directory", help="Checkpoints, scratch files and the embedded store.")
]
Master = Annotated[
    str, typer.Option("--master", help="Spark's master: local[*], spark://…, k8s://…, yarn.")
]
Mongo = Annotated[
    str, typer.Option("--mongodb", help="Address of a MongoDB; without, readings go to SQLite.")
]
ModelsFile = Annotated[
    Path | None, typer.Option("--models", help="YAML file with names, units and limits of devices.")
]


@app.callback()
def pipeline() -> None:
    """Keep `run` a subcommand."""


@app.command("run")
def run(
    jobs: Jobs,
    bootstrap: Bootstrap = None,
    directory: Directory = Path("data/pipeline"),
    master: Master = "local[*]",
    mongodb: Mongo = "",
    models: ModelsFile = None,
    root: Annotated[str, typer.Option(help="First level of the devices' topics.")] = "iotsphere",
    trigger: Annotated[str, typer.Option(help="How often a batch starts.")] = "1 second",
    offline_s: Annotated[float, typer.Option(help="Silence after which one is offline.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and stop.")] = False,
    metrics_port: Annotated[int, typer.Option(help="For Prometheus; 0 for none.")] = 9464,
) -> None:
    """Run jobs until told to stop; a query that fails is started again.

    \b
      chordmq pipeline run all
      chordmq pipeline run telemetry --once
    """
    spark_or_fail()
    from chordmq_spark.models import BadModels, read_models
    from chordmq_spark.pipeline import Pipeline, UnknownJob, queries_of
    from chordmq_spark.session import start_spark
    from chordmq_spark.settings import PipelineSettings

    try:
        starts = queries_of(jobs, once=once)
        settings = PipelineSettings(
            bootstrap=address(bootstrap),
            directory=directory.absolute(),
            root=root,
            mongodb=mongodb,
            trigger=trigger,
            offline_s=offline_s,
            once=once,
            models=read_models(models),
            **secrets(),
        )
    except (UnknownJob, BadModels) as error:
        fail(str(error), EXIT_USAGE)
    settings.directory.mkdir(parents=True, exist_ok=True)
    say(f"starting Spark ({master}); {', '.join(starts)}")
    spark = start_spark("chordmq-pipeline", master=master, directory=settings.directory)
    running = Pipeline(spark, settings, starts)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: running.stop())
    try:
        running.run(metrics_port or None)
    finally:
        spark.stop()


def spark_or_fail() -> None:
    """End with what to install if Spark or Java is missing."""
    from importlib.util import find_spec
    from shutil import which

    if find_spec("pyspark") is None:
        fail("Spark is not installed; run: pip install 'chordmq[spark]'", EXIT_USAGE)
    if which("java") is None and not os.environ.get("JAVA_HOME"):
        fail("Spark needs Java 17; on Debian: apt install openjdk-17-jre-headless", EXIT_USAGE)


def secrets() -> dict[str, Any]:
    """Return who the pipeline is, as the other commands say it."""
    from chordmq.cli.identity import connection

    security = connection().security
    return {"user": security.user, "password": security.password, "tls_ca": security.tls_ca}

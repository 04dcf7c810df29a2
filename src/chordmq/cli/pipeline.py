"""Runs the data pipeline on Spark, here or on a cluster, and replays what is archived."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from chordmq.cli.archive import replay_
from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.identity import security
from chordmq.cli.options import Bootstrap, address
from chordmq.cli.output import fail, say

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Run the data pipeline on Spark.

    \b
    telemetry   device readings, cleaned, to the store; threshold alerts; bad ones to <topic>.dlq
    analytics   windowed aggregates, values unlike the others, silent devices
    tables      readings and their hours as Iceberg tables beside the archive

    \b
      chordmq pipeline run all
      chordmq pipeline run telemetry --mongodb mongodb://localhost:27017
      chordmq pipeline run analytics --master spark://host:7077
      chordmq pipeline submit all --master spark://host:7077 --packages packages.zip
      chordmq pipeline replay orders --into orders-again
    """,
)
app.command("replay")(replay_)

Jobs = Annotated[list[str], typer.Argument(help="telemetry, analytics, tables, or all.")]
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


@app.command("run")
def run(
    jobs: Jobs,
    bootstrap: Bootstrap = None,
    directory: Directory = Path("data/pipeline"),
    master: Master = "local[*]",
    archive: Annotated[Path, typer.Option(help="The archive, which gets the typed tables.")] = Path(
        "data/archive"
    ),
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
    from chordmq.iot.models import BadModels, read_models
    from chordmq_spark.pipeline import Pipeline, UnknownJob, queries_of
    from chordmq_spark.session import start_spark
    from chordmq_spark.settings import PipelineSettings

    try:
        starts = queries_of(jobs, once=once)
        settings = PipelineSettings(
            bootstrap=address(bootstrap),
            directory=directory.absolute(),
            archive=archive.absolute(),
            root=root,
            mongodb=mongodb,
            trigger=trigger,
            offline_s=offline_s,
            once=once,
            models=read_models(models),
            security=security(),
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


@app.command("submit")
def submit(
    jobs: Jobs,
    master: Annotated[str, typer.Option("--master", help="spark://…, k8s://… or yarn.")],
    more: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="An option of `run`; repeatable."),
    ] = None,
    deploy: Annotated[
        str, typer.Option("--deploy-mode", help="Where the driver runs: client or cluster.")
    ] = "client",
    packages: Annotated[
        Path | None, typer.Option(help="What `chordmq pipeline pack` has made, for executors.")
    ] = None,
    environment: Annotated[
        Path | None,
        typer.Option(
            help="Archive of a Python environment (venv-pack), for --deploy-mode cluster."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.")
    ] = None,
) -> None:
    """Hand the pipeline to a cluster by spark-submit.

    All machines need this package: installed at the same path, in their image, or sent to them by
    --packages, which wants only the same Python there. The login comes from the environment
    (CHORDMQ_USER, …), never from the command line, which others can see.

    \b
      chordmq pipeline submit all --master spark://host:7077 --option bootstrap=broker:9092
      chordmq pipeline submit all --master spark://host:7077 --packages packages.zip
      chordmq pipeline submit telemetry --master yarn --deploy-mode cluster --environment env.tar.gz
    """
    spark_or_fail()
    if environment is not None and deploy == "client":
        fail("a driver here plans by the executors' Python: give --packages", EXIT_USAGE)
    command = submission(jobs, master, deploy, sent_along(packages, environment), conf or [])
    for one in more or []:
        name, _, value = one.partition("=")
        command += [f"--{name}"] + ([value] if value else [])
    if packages is not None:
        from chordmq_spark.packing import folders

        # Where streams are planned: beside the driver, but by the Python of the executors.
        own = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders(), *filter(None, [own])])
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # In its place, so that signals for this process reach the driver.
    os.execv(command[0], command)  # noqa: S606  the user's own words


@app.command("pack")
def pack_(target: Annotated[Path, typer.Argument(help="The ZIP file to write.")]) -> None:
    """Pack what the pipeline's tasks need, for machines that have only Python and Spark.

    \b
      chordmq pipeline pack packages.zip
    """
    spark_or_fail()
    from chordmq_spark.packing import pack

    say(f"{pack(target)} files are in {target}")


def sent_along(packages: Path | None, environment: Path | None) -> dict[str, str]:
    """Return the settings by which executors get what they import."""
    if packages is not None:
        return {
            "spark.archives": f"{packages.absolute()}#packages",
            "spark.executorEnv.PYTHONPATH": "packages",
            "spark.pyspark.python": f"python{sys.version_info[0]}.{sys.version_info[1]}",
            "spark.pyspark.driver.python": sys.executable,
        }
    if environment is not None:
        return {
            "spark.archives": f"{environment.absolute()}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
    return {}


def submission(
    jobs: list[str], master: str, deploy: str, along: dict[str, str], conf: list[str]
) -> list[str]:
    """Return the command that hands `pipeline run` to a cluster."""
    from chordmq_spark.session import SETTINGS

    settings = [*(f"{key}={value}" for key, value in (SETTINGS | along).items()), *conf]
    spark, program = find_spec("pyspark"), find_spec("chordmq.__main__")
    assert spark is not None
    assert program is not None
    folder = Path(next(iter(spark.submodule_search_locations or ())))
    script = str(program.origin)
    where = f"local://{script}" if deploy == "cluster" else script
    command = [str(folder / "bin" / "spark-submit"), "--master", master, "--deploy-mode", deploy]
    for setting in settings:
        command += ["--conf", setting]
    return [*command, where, "pipeline", "run", *jobs, "--master", master]


def spark_or_fail() -> None:
    """End with what to install if Spark or Java is missing."""
    if find_spec("pyspark") is None:
        fail("Spark is not installed; run: pip install 'chordmq[spark]'", EXIT_USAGE)
    home = os.environ.get("JAVA_HOME")
    if home and which("java", path=f"{home}/bin") is None:
        fail(f"JAVA_HOME is {home}, where there is no Java", EXIT_USAGE)
    if not home and which("java") is None:
        fail("Spark needs Java 17; on Debian: apt install openjdk-17-jre-headless", EXIT_USAGE)

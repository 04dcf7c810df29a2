"""The commands of the data pipeline, as far as no Spark has to start."""

import sys
from pathlib import Path

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.pipeline import sent_along, submission
from chordmq.client.security import Security
from chordmq_spark.settings import PipelineSettings
from tests.cli.command_line import CommandLine


def test_a_submission_runs_the_same_program_on_a_cluster() -> None:
    """P1: spark-submit gets the pipeline's own command, its settings, and the user's after them."""
    told = ["spark.sql.shuffle.partitions=8"]
    command = submission(["telemetry"], "spark://h:7077", "client", {}, told)
    submit, program = Path(command[0]), command.index("pipeline")
    assert submit.name == "spark-submit"
    assert submit.exists()
    assert command[1:5] == ["--master", "spark://h:7077", "--deploy-mode", "client"]
    assert Path(command[program - 1]).name == "__main__.py"
    assert command[program:] == ["pipeline", "run", "telemetry", "--master", "spark://h:7077"]
    own, users = "spark.sql.shuffle.partitions=2", "spark.sql.shuffle.partitions=8"
    assert command.index(own) < command.index(users) < program


def test_executors_get_what_they_import_as_an_archive() -> None:
    packed = Path("packed").absolute()
    there = submission(["all"], "yarn", "cluster", sent_along(None, packed), [])
    assert f"spark.archives={packed}#environment" in there
    assert any(word.startswith("local://") for word in there)
    here = submission(["all"], "spark://h:7077", "client", sent_along(packed, None), [])
    assert f"spark.archives={packed}#packages" in here
    assert f"spark.pyspark.driver.python={sys.executable}" in here


def test_an_environment_that_the_driver_cannot_use_is_refused() -> None:
    submit = ["pipeline", "submit", "all", "--master", "spark://h:7077"]
    done = CommandLine("localhost:1")(*submit, "--environment", "env.tar.gz")
    assert done.status == EXIT_USAGE
    assert "--packages" in done.err


def test_sources_and_sinks_log_in_as_the_command_line_says() -> None:
    """C10, P2: password, token, mechanism and client certificate reach every task."""
    who = Security(
        user="u", password="p", mechanism="PLAIN", tls_ca="ca.pem", tls_certificate="c.pem",
        tls_key="k.pem",
    )  # fmt: skip
    assert PipelineSettings(bootstrap="b:1", security=who).connection() == {
        "kafka.bootstrap.servers": "b:1",
        "user": "u",
        "password": "p",
        "mechanism": "PLAIN",
        "tlsCa": "ca.pem",
        "tlsCertificate": "c.pem",
        "tlsKey": "k.pem",
    }
    token = Security(token="t", tls=True)
    options = PipelineSettings(security=token).connection()
    assert (options["token"], options["tls"]) == ("t", "true")
    assert "'p'" not in repr(PipelineSettings(security=who))

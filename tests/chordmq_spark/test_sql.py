"""SQL sees a topic whole: files of the archive and the log behind them, each record once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chordmq.archive.archiver import Archiver
from chordmq.archive.table import Archive, table_name
from chordmq.cli.exits import EXIT_REFUSED
from chordmq.client.bulk import Bulk, BulkSettings
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sql import register
from tests.archive.test_archiver import fill, rows
from tests.chordmq_spark.jobs.test_tables import publish, run
from tests.cli.command_line import ENVIRONMENT, CommandLine
from tests.running_node import RunningNode
from tests.spark_session import JAVA_OPTIONS


def archived(node: RunningNode, name: str, count: int, below: Path) -> Archive:
    """Return an archive that has the first records of a topic."""
    archive = Archive(below / "archive")
    fill(node, name, rows(count))
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        Archiver(broker, archive).archive(name)
    return archive


def viewed(spark: SparkSession, node: RunningNode, archive: Archive, name: str) -> str:
    """Return the view of a topic over log and archive."""
    options = {"kafka.bootstrap.servers": node.bootstrap}
    settings = BulkSettings(bootstrap=node.bootstrap)
    (view,) = register(spark, settings, options, archive, [name])
    return view


def test_archive_and_log_are_one_table(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P5: ad-hoc SQL over both together, crossing at the offset where the archive ends."""
    archive = archived(node, name, 30, tmp_path)
    fill(node, name, rows(12, start=30))
    view = viewed(spark, node, archive, name)
    assert view == table_name(name)
    query = f"SELECT count(*), count(DISTINCT string(value)), max(int(string(value))) FROM {view}"
    assert tuple(spark.sql(query).first() or ()) == (42, 42, 41)
    archive.close()


def test_what_the_log_has_no_more_is_still_asked(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P5: a topic that is deleted lives on in its archive."""
    archive = archived(node, name, 5, tmp_path)
    CommandLine(node.bootstrap).ok("topics", "delete", name, "--yes")
    assert spark.table(viewed(spark, node, archive, name)).count() == 5
    archive.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_answers_over_log_archive_and_typed_tables(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P5: `chordmq sql` as a user runs it, and what it says of a query that is wrong."""
    devices = f"{name}.devices"
    where = ["--bootstrap", node.bootstrap, "--directory", str(tmp_path / "archive")]

    def command(*words: str) -> "subprocess.CompletedProcess[str]":
        whole = [sys.executable, "-m", "chordmq", *words, *where]
        quick = ENVIRONMENT | {"JDK_JAVA_OPTIONS": JAVA_OPTIONS}
        return subprocess.run(whole, capture_output=True, text=True, env=quick, timeout=600)

    publish(node, name, range(90))
    run(spark, PipelineSettings(
        bootstrap=node.bootstrap, directory=tmp_path, root=name, once=True,
        archive=tmp_path / "archive",
    ))  # fmt: skip
    command("archive", "run", devices).check_returncode()
    publish(node, name, range(90, 100))
    topic = table_name(name)
    done = command(
        "sql",
        f"""
        SELECT * FROM
        (SELECT count(*) AS messages, count(DISTINCT partition, offset) AS places
         FROM {topic}_devices),
        (SELECT count(*) AS readings FROM {topic}_readings),
        (SELECT sum(count) AS summed FROM {topic}_hourly)
        """,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"messages": 110, "places": 110, "readings": 87, "summed": 87}
    ]
    wrong = command("sql", f"SHOW ME FROM {topic}_devices, nowhere")
    assert (wrong.returncode, wrong.stdout) == (EXIT_REFUSED, "")
    assert "[PARSE_SYNTAX_ERROR]" in wrong.stderr
    assert "Traceback" not in wrong.stderr

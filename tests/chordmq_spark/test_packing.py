"""The pipeline on a cluster whose machines have Python and Spark, and nothing of ours."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from chordmq_spark.packing import pack
from tests.chordmq_spark.jobs.test_telemetry import publish
from tests.running_node import RunningNode
from tests.spark_cluster import environment, spark_cluster

TOOL = [sys.executable, "-m", "chordmq", "pipeline"]
BARE = str(getattr(sys, "_base_executable", sys.executable))
"""The Python that this environment was made of."""


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_executors_run_from_what_was_sent_to_them(
    own_node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P1: the same package, unchanged, on a standalone master with two workers."""
    there = subprocess.run([BARE, "-I", "-c", "import chordmq"], capture_output=True, check=False)
    assert b"ModuleNotFoundError" in there.stderr
    publish(own_node, name, 50)
    packed = tmp_path / "packages.zip"
    assert pack(packed) == len(ZipFile(packed).namelist())
    options = {
        "bootstrap": own_node.bootstrap, "root": name, "directory": str(tmp_path / "pipeline"),
        "metrics-port": "0", "once": "",
    }  # fmt: skip
    told = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    with spark_cluster(tmp_path / "spark") as cluster:
        submit = [*TOOL, "submit", "telemetry", "--master", cluster.master, *told]
        submit += ["--packages", str(packed), "--conf", f"spark.pyspark.python={BARE}"]
        done = subprocess.run(submit, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4_000:]
    with sqlite3.connect(tmp_path / "pipeline/readings.sqlite") as store:
        (count,) = store.execute("SELECT count(*) FROM readings").fetchone()
    store.close()
    assert count == 45

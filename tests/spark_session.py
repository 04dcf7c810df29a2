"""One Spark for all tests of a worker: starting it takes longer than most of them."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from chordmq_spark.session import start_spark

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The quick compiler alone: tests never run long enough for the thorough one to pay."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a local session with two cores and one shuffle partition."""
    os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
    directory = tmp_path_factory.mktemp("spark")
    session = start_spark(
        "tests",
        master="local[2]",
        directory=directory,
        settings={"spark.sql.shuffle.partitions": "1", "spark.log.level": "ERROR"},
    )
    yield session
    session.stop()

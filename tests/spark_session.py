"""One Spark for all tests of a worker: starting it takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from chordmq_spark.session import start_spark
from tests.running_node import ROOT

CONNECTOR = ROOT / ".cache" / "interop" / "spark" / "lib"
"""Spark's own Kafka connector, as scripts/test_tools.py fetches it."""
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The quick compiler alone: tests never run long enough for the thorough one to pay."""


@pytest.fixture
def spark(session: SparkSession) -> SparkSession:
    """Give the session to a test, as the one in use.

    Spark finds Python's data sources for a writer by the session of the thread that asks; when the
    link between Python and Java was made anew, that is a thread without one.
    """
    java = SparkSession._get_j_spark_session_class(session._jvm)
    java.setActiveSession(session._jsparkSession)
    return session


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a local session with two cores and one shuffle partition."""
    directory = tmp_path_factory.mktemp("spark")
    # Other programs in Java that tests start have options of their own.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        started = start_spark(
            "tests",
            master="local[2]",
            directory=directory,
            settings={
                "spark.sql.shuffle.partitions": "1",
                "spark.log.level": "ERROR",
                "spark.jars": ",".join(map(str, sorted(CONNECTOR.glob("*.jar")))),
            },
        )
    yield started
    started.stop()

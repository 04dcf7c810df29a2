"""One way to start Spark: local by default, a cluster by its address, settings as measured."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from chordmq_spark.home import home_without_zip

STREAMING = "org.apache.spark.sql.execution.streaming"
SETTINGS = {
    # Without Hadoop's native library each micro-batch of the default forks fifteen processes.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.python.daemon.module": "chordmq_spark.daemon",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # What readers of Iceberg understand; the default is older than Parquet's own type.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # The code of a task takes kilobytes. In the default block of 4 MB it is a humongous object to
    # Java's collector, which then goes through the whole heap for every second micro-batch.
    "spark.broadcast.blockSize": "256k",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # Several queries share few cores; none may hold up the others until it is done.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
}
LOCAL = "local[*]"


def start_spark(
    name: str,
    *,
    master: str = LOCAL,
    directory: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session; Spark's own scratch files go below `directory`."""
    # The default worker is the first python3 on the PATH, which need not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = SETTINGS | dict(settings or {})
    if directory is not None:
        chosen.setdefault("spark.local.dir", str(directory / "scratch"))
        chosen.setdefault("spark.sql.warehouse.dir", str(directory / "warehouse"))
    builder = SparkSession.builder.appName(name).master(master)
    # NumPy would start a thread for each core in every process that plans a stream.
    surroundings = {"OPENBLAS_NUM_THREADS": "1"}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen.setdefault("spark.driver.host", "127.0.0.1")
        chosen.setdefault("spark.driver.bindAddress", "127.0.0.1")
        # Half the system time of what Java takes from Python workers, beside TCP.
        chosen.setdefault("spark.python.unix.domain.socket.enabled", "true")
        # Someone who has said where Spark is may have it from elsewhere.
        if "SPARK_HOME" not in os.environ:
            surroundings["SPARK_HOME"] = str(home_without_zip(directory))
    for key, value in (chosen | submitted()).items():
        builder = builder.config(key, value)
    with environment(surroundings):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def submitted() -> dict[str, str]:
    """Return what spark-submit was told, if it has started this process; that comes first."""
    return dict(SparkConf().getAll()) if "PYSPARK_GATEWAY_PORT" in os.environ else {}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Give variables to what starts in this block, beside those that are already set."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]

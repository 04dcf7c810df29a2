"""Starts and stops the brokers that are compared: ChordMQ, and a real Apache Kafka as its peer."""

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.wire import brokers_known

ROOT = Path(__file__).resolve().parent.parent
POM = ROOT / "benchmarks" / "kafka" / "pom.xml"
LOG_SETTINGS = ROOT / "benchmarks" / "kafka" / "log4j2.properties"
KAFKA_LIBS = ROOT / ".cache" / "kafka" / "libs"
KAFKA_VERSION = "4.3.0"
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
PORTS = range(15_000, 18_000)
_given_ports: set[int] = set()
FRONTS = ("kafka", "http", "framed", "provider", "mqtt", "amqp", "capnp", "grpc", "peer")
"""What listens; each on a port of its own, the same over restarts."""
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG

# What Kafka's own start script passes to the machine (kafka-server-start.sh, kafka-run-class.sh).
KAFKA_HEAP = ["-Xms1g", "-Xmx1g"]
KAFKA_JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/logs
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class PeerFailed(Exception):
    """A broker did not start, or something it needs is not installed."""


@dataclass(slots=True)
class Peer:
    """A running broker: where it listens, its process and where its files are."""

    name: str
    bootstrap: str
    process: subprocess.Popen[bytes]
    directory: Path
    ready_s: float
    """Seconds from the start of the process to its first answer to a Metadata request."""

    @property
    def pid(self) -> int:
        """Return the broker's process id."""
        return self.process.pid

    def stop(self) -> None:
        """End the broker in order, or by force when it takes too long."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the broker as a crash would: kill -9."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def start_kafka(directory: Path, settings: Sequence[str] = ()) -> Peer:
    """Start Apache Kafka (one node, KRaft) on `directory`, formatting it first if it is new."""
    classpath = str(kafka_libs() / "*")
    properties = directory / "server.properties"
    if not properties.exists():
        _format_kafka(directory, properties, classpath, settings)
    address = properties.read_text().split("listeners=PLAINTEXT://127.0.0.1:", 1)[1]
    port = int(address.split(",", 1)[0])
    command = [_java(), *KAFKA_HEAP, *KAFKA_JVM, f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
    command += ["-cp", classpath, "kafka.Kafka", str(properties)]
    name = f"Apache Kafka {KAFKA_VERSION}"
    return _start(name, command, directory, port, partial(_is_up, port))


def start_chordmq(
    directory: Path,
    settings: Sequence[str] = (),
    *,
    is_open: bool = True,
    source: Path = ROOT / "src",
) -> Peer:
    """Start a ChordMQ node on `directory`; `settings` are more `key=value` of its configuration.

    One that demands TLS or a login is not open: it is asked over HTTP whether it is ready. Its
    program is in `source`, which may be another version's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ports = directory / "ports"
    if not ports.exists():
        ports.write_text(" ".join(str(free_port()) for _ in FRONTS))
    numbers = dict(zip(FRONTS, map(int, ports.read_text().split()), strict=True))
    port, http_port = numbers["kafka"], numbers["http"]
    chosen = [f"data_dir={directory}/data"]
    chosen += [f"{front}.port={number}" for front, number in numbers.items()]
    command = [sys.executable, "-m", "chordmq", "serve"]
    for setting in (*chosen, *settings):
        command += ["--set", setting]
    ready = partial(_is_up, port) if is_open else partial(_is_ready, http_port)
    return _start("ChordMQ", command, directory, port, ready, source)


def kafka_libs() -> Path:
    """Return the folder of Kafka's jars, fetched once with Maven."""
    if not (KAFKA_LIBS / f"kafka_2.13-{KAFKA_VERSION}.jar").exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise PeerFailed(
                "Maven is missing: python scripts/system_packages.py, or apt-get install maven"
            )
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = [maven, "-q", "-B", "-f", str(POM), *goal, f"-DoutputDirectory={KAFKA_LIBS}"]
        subprocess.run(command, check=True)
    return KAFKA_LIBS


def free_port() -> int:
    """Return a loopback port that nobody listens on and no outgoing connection can take."""
    if len(_given_ports) > len(PORTS) // 2:
        _given_ports.clear()
    while True:
        port = random.choice(PORTS)
        if port in _given_ports:  # to a node that does not listen yet
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given_ports.add(port)
            return port


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise PeerFailed(
            "Java 17 is missing: python scripts/system_packages.py, "
            "or apt-get install default-jdk-headless"
        )
    return java


def _format_kafka(
    directory: Path, properties: Path, classpath: str, settings: Sequence[str]
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    ports = {"port": free_port(), "controller_port": free_port()}
    text = SERVER_PROPERTIES.format(directory=directory, **ports)
    properties.write_text(text + "".join(f"{one.format(**ports)}\n" for one in settings))
    tool = [_java(), f"-Dlog4j2.configurationFile={LOG_SETTINGS}", "-cp", classpath]
    tool += [
        "kafka.tools.StorageTool",
        "format",
        "-t",
        "Y2hvcmRtcS1iZW5jaC0wMQ",
        "-c",
        str(properties),
    ]
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)


def _is_up(port: int) -> bool:
    return brokers_known(port) > 0


def _is_ready(http_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _start(
    name: str,
    command: list[str],
    directory: Path,
    port: int,
    ready: Callable[[], bool],
    source: Path = ROOT / "src",
) -> Peer:
    """Start the process and wait until it answers."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    # It would have a node compile all its modules at each start, which no installed one does.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.monotonic()
    with (directory / "broker.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
            env=environment, preexec_fn=_die_with_parent,
        )  # fmt: skip
    peer = Peer(name, f"127.0.0.1:{port}", process, directory, 0.0)
    try:
        while not ready():
            waited = time.monotonic() - started
            if process.poll() is not None or waited > READY_TIMEOUT_S:
                log_end = (directory / "broker.log").read_text(errors="replace")[-2000:]
                raise PeerFailed(f"{name} did not start in {waited:.0f} s:\n{log_end}")
            time.sleep(0.005)
    except BaseException:
        peer.kill()
        raise
    peer.ready_s = time.monotonic() - started
    return peer


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)

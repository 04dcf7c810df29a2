"""Load from Kafka's own tools: the Java client, driven and measured as its makers do it."""

import re
import shutil
import subprocess
from dataclasses import dataclass

from benchmarks.load import Latencies
from benchmarks.peers import LOG_SETTINGS, PeerFailed, kafka_libs
from benchmarks.sockets import Rate

TOOLS = "org.apache.kafka.tools"
TIMEOUT_S = 180
PRODUCER = {"linger.ms": "5", "batch.size": "131072"}
"""The same as librdkafka's, see load.py."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool measured, and the command line that repeats it."""

    rate: Rate
    command: str


def producer_performance(
    bootstrap: str, topic: str, size: int, settings: dict[str, str], count: int
) -> Outcome:
    """Run ProducerPerformance: `count` records of `size` bytes as fast as they go."""
    properties = [f"{key}={value}" for key, value in settings.items()]
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count)]
    arguments += ["--record-size", str(size), "--throughput", "-1"]
    output = _run("ProducerPerformance", [*arguments, "--command-property", *properties])
    found = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", output)
    if not found or int(found[-1][0]) != count:
        raise PeerFailed(f"ProducerPerformance said: {output[-500:]}")
    rate = float(found[-1][1])
    return Outcome(
        Rate(count, count / rate, count * size),
        command_line("ProducerPerformance", [*arguments, "--command-property", *properties]),
    )


def consumer_performance(bootstrap: str, topic: str, size: int, count: int) -> Outcome:
    """Run ConsumerPerformance over `count` records; joining the group is not counted."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count)]
    output = _run("ConsumerPerformance", [*arguments, "--hide-header"])
    fields = output.strip().splitlines()[-1].split(",")
    got, fetch_ms = int(fields[4]), float(fields[7])
    if got < count:
        raise PeerFailed(f"ConsumerPerformance read {got} of {count}: {output[-500:]}")
    return Outcome(
        Rate(got, fetch_ms / 1000, got * size), command_line("ConsumerPerformance", arguments)
    )


def end_to_end_latency(bootstrap: str, topic: str, count: int) -> tuple[Latencies, str]:
    """Run EndToEndLatency: one message of 100 bytes at a time, acks=1, there and back."""
    arguments = [bootstrap, topic, str(count), "1", "100"]
    output = _run("EndToEndLatency", arguments)
    mean = re.search(r"Avg latency: ([\d.]+) ms", output)
    percentiles = re.search(r"50th = ([\d.]+), 99th = ([\d.]+), 99.9th = ([\d.]+)", output)
    if mean is None or percentiles is None:
        raise PeerFailed(f"EndToEndLatency said: {output[-500:]}")
    numbers = [float(text) for text in (*mean.groups(), *percentiles.groups())]
    return Latencies(*numbers), command_line("EndToEndLatency", arguments)


def command_line(tool: str, arguments: list[str]) -> str:
    """Return the command as a person would type it."""
    return f"java -Xmx512m -cp '.cache/kafka/libs/*' {TOOLS}.{tool} {' '.join(arguments)}"


def _run(tool: str, arguments: list[str]) -> str:
    java = shutil.which("java") or "java"
    command = [java, "-Xmx512m", f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
    command += ["-cp", str(kafka_libs() / "*"), f"{TOOLS}.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise PeerFailed(f"{tool} failed: {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout

"""Turns the samples of all rounds into rows, a JSON file, a note on the machine and a table."""

import json
import operator
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import confluent_kafka
from rich.console import Console
from rich.table import Table

from benchmarks.peers import KAFKA_VERSION, ROOT
from benchmarks.session import Sample

OUT = ROOT / "benchmarks" / "out"
PEER_NAME = f"Apache Kafka {KAFKA_VERSION}"

Compare = Callable[[float, float], bool]
# What the ratio ours / peer must reach.
GOALS: dict[str, tuple[str, Compare, float]] = {
    "produce": ("≥", operator.ge, 1.2),
    "consume": ("≥", operator.ge, 1.2),
    "latency": ("≤", operator.le, 0.5),
    "cpu": ("≤", operator.le, 0.5),
    "memory": ("≤", operator.le, 0.15),
    "start": ("≤", operator.le, 0.2),
    "tls": ("≥", operator.ge, 0.8),
    "replicated": ("≥", operator.ge, 1.0),
    "replicated_latency": ("≤", operator.le, 1.0),
    "spark": ("≥", operator.ge, 3.0),
    "stream": ("≥", operator.ge, 1.0),
}
# What our own number must reach, whatever the peer does. Both produce floors are for batches on one
# connection; one record per request (unbatched_1_connection) is not held against 50,000.
FLOORS = {
    "produce_100b_acks1_os": 601_000,
    "produce_1k_acks1_os": 50_000,
    "connections.answered": 10_000,
    "websocket_fan_out_100": 100_000,
    "iot_chain": 10_000,
    "shadow_updates": 2_000,
    "cdc_postgresql": 50_000,
    "cdc_mongodb": 10_000,
    "framed_in_100b": 100_000,
    "framed_out_100b": 100_000,
    "provider_in_100b": 50_000,
    "provider_out_100b": 50_000,
    "capnp_in_100b": 50_000,
    "pipeline_to_mongodb": 20_000,
    "archive": 100,
}
# What our own number must not exceed.
CEILINGS = {
    "login_scram.cpu": 1.0,
    "failover_kill9": 3.0,
    "failover_graceful": 0.5,
    "acl.cost": 3.0,
    "websocket_latency.p50": 1.0,
    "iot_chain_latency.mean": 50.0,
    "cdc_postgresql_latency.p99": 50.0,
    "cdc_mongodb_latency.p99": 50.0,
    "provider_latency.p99": 5.0,
    "pipeline_alert.p50": 2.0,
    "amqp_latency.p99": 5.0,
    "mqtt_latency.p99": 5.0,
    "connected_mqtt": 30.0,
    "connected_kafka": 30.0,
}

Row = dict[str, Any]


def rows(ours: Iterable[Sample], peers: Iterable[Sample]) -> list[Row]:
    """Return one row for each name, with the median of its rounds."""
    mine, theirs = _by_name(ours), _by_name(peers)
    return [_row(mine.get(name, []), theirs.get(name, [])) for name in {**mine, **theirs}]


def write(found: list[Row], note: dict[str, Any], folder: Path) -> Path:
    """Write latest.json, beside it the note on how it was measured, and a table for results.md."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "latest.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    (folder / "latest.meta.json").write_text(json.dumps(note, indent=1) + "\n")
    (folder / "latest.md").write_text(markdown(found, note))
    return path


def markdown(found: list[Row], note: dict[str, Any]) -> str:
    """Return the rows as a table to keep, under a line that says what was measured and where."""
    machine = f"{note['cores']} cores of {note['processor']}, Linux {note['kernel']}"
    versions = f"Python {note['python']}, librdkafka {note['librdkafka']}, {note['java']}"
    lines = [
        f"Commit {note['commit'][:12]}, {note['taken']}, profile {note['profile']}, load average "
        f"before {note['load_average_before']:.1f}; {machine}; {versions}.",
        "",
        f"| case | ChordMQ | {PEER_NAME} | unit | ratio | target | met |",
        "|---|---:|---:|---|---:|---|---|",
    ]
    for row in found:
        ours = _spread(row["ours"], row["ours_rounds"])
        peer = _spread(row["peer"], row["peer_rounds"])
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        cells = (row["name"], ours, peer, row["unit"], ratio, row["target"], met)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def show(found: list[Row], console: Console) -> None:
    """Print the rows with their targets."""
    table = Table(title=f"ChordMQ against {PEER_NAME}: median of the rounds [lowest, highest]")
    for heading in ("case", "ChordMQ", PEER_NAME, "unit", "ratio", "target", "met"):
        side: Literal["left", "right"] = "left" if heading in ("case", "unit") else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    for row in found:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        met = {True: "[green]yes", False: "[red]no", None: ""}[row["met"]]
        ours = _spread(row["ours"], row["ours_rounds"])
        peer = _spread(row["peer"], row["peer_rounds"])
        table.add_row(row["name"], ours, peer, row["unit"], ratio, row["target"], met)
    console.print(table)


def note(profile: str, started: float, load_before: float) -> dict[str, Any]:
    """Return what one must know to judge the numbers."""
    java = shutil.which("java")
    return {
        "commit": _output(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
        "changed_files": len(
            _output(["git", "-C", str(ROOT), "status", "--porcelain", "-uno"]).splitlines()
        ),
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "profile": profile,
        "seconds": round(time.monotonic() - started),
        "load_average_before": load_before,
        "cores": os.cpu_count(),
        "processor": _first("/proc/cpuinfo", "model name"),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _output([java, "--version"]).splitlines()[0] if java else "",
        "kafka": KAFKA_VERSION,
        "confluent_kafka": confluent_kafka.version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "cold": "posix_fadvise(DONTNEED) on every log file, after sync",
        "cpu_and_rss": "/proc of the broker's process, all threads and children",
    }


def _row(ours: list[Sample], peers: list[Sample]) -> Row:
    first = (ours or peers)[0]
    mine, theirs = _median(ours, "value"), _median(peers, "value")
    ratio = mine / theirs if mine is not None and theirs else None
    target, met = _target(first, mine, ratio)
    return {
        "name": first.name,
        "ours": mine,
        "peer": theirs,
        "peer_name": PEER_NAME,
        "ratio": ratio,
        "unit": first.unit,
        "ours_cpu_s": _median(ours, "cpu_s"),
        "peer_cpu_s": _median(peers, "cpu_s"),
        "ours_rss_mb": _median(ours, "rss_mb"),
        "peer_rss_mb": _median(peers, "rss_mb"),
        "command": first.command,
        "ours_mb_s": _median(ours, "mb_s"),
        "peer_mb_s": _median(peers, "mb_s"),
        "target": target,
        "met": met,
        "ours_rounds": [sample.value for sample in ours],
        "peer_rounds": [sample.value for sample in peers],
    }


def _target(sample: Sample, mine: float | None, ratio: float | None) -> tuple[str, bool | None]:
    """Return the target in words and whether it is met (None when it cannot be said)."""
    words: list[str] = []
    verdicts: list[bool] = []
    if sample.goal in GOALS:
        sign, compare, factor = GOALS[sample.goal]
        words.append(f"{sign} {factor} times")
        verdicts += [] if ratio is None else [compare(ratio, factor)]
    if sample.name in FLOORS:
        words.append(f"≥ {FLOORS[sample.name]:,}")
        verdicts += [] if mine is None else [mine >= FLOORS[sample.name]]
    if sample.name in CEILINGS:
        words.append(f"≤ {CEILINGS[sample.name]:g}")
        verdicts += [] if mine is None else [mine <= CEILINGS[sample.name]]
    return ", ".join(words), all(verdicts) if verdicts else None


def _by_name(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.name, []).append(sample)
    return found


def _median(samples: list[Sample], field: str) -> float | None:
    values = [getattr(sample, field) for sample in samples]
    return statistics.median(values) if values and None not in values else None


def _spread(median: float | None, values: list[float]) -> str:
    if median is None:
        return "—"
    if len(values) < 2:
        return number(median)
    return f"{number(median)} [{number(min(values))}, {number(max(values))}]"


def number(value: float) -> str:
    """Return a number with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _first(path: str, label: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(label)), "")

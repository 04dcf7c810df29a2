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

# The peers that run inside a case: their rows bear their name in place of ours.
RIVALS = {
    "mqtt": ("mosquitto", "amqtt"),
    "amqp": ("rabbitmq",),
    "cdc": ("debezium",),
    "websocket": ("websockets",),
}

# The peers that take the other broker's place in a case: how its rows begin.
STAND_INS = {
    "stream_nats": "NATS JetStream",
    "stream_redis": "Redis Streams",
    "spark_": "Spark's connector",
}

Compare = Callable[[float, float], bool]
Goal = tuple[str, Compare, float]


def _at_least(factor: float) -> Goal:
    return "≥", operator.ge, factor


def _at_most(factor: float) -> Goal:
    return "≤", operator.le, factor


# What the ratio ours / peer must reach, by the goal of a sample or the name of a rival's.
GOALS: dict[str, Goal] = {
    "produce": _at_least(1.5),
    "consume": _at_least(1.5),
    "unbatched": _at_least(1.0),
    "latency": _at_most(0.3),
    "cpu": _at_most(0.4),
    "memory": _at_most(0.1),
    "start": _at_most(0.1),
    "tls": _at_least(0.8),
    "replicated": _at_least(1.0),
    "replicated_latency": _at_most(1.0),
    "spark": _at_least(3.0),
    "stream": _at_least(1.0),
    "mosquitto_qos0": _at_least(3.0),
    "mosquitto_qos1": _at_least(2.0),
    "mosquitto_fan_out": _at_least(3.0),
    "mosquitto_fan_in": _at_least(1.0),
    "mosquitto_fan_in_names": _at_least(1.0),
    "amqtt_qos0": _at_least(20.0),
    "amqtt_qos1": _at_least(20.0),
    "rabbitmq_classic": _at_least(3.0),
    "rabbitmq_quorum": _at_least(3.0),
    "rabbitmq_publish": _at_least(3.0),
    "rabbitmq_shared": _at_least(3.0),
    "rabbitmq_backlog": _at_least(3.0),
    "rabbitmq_backlog_shared": _at_least(3.0),
    "rabbitmq_fanout": _at_least(3.0),
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
# What each byte of a case has to pass, and cannot pass faster: the rows of ceilings.py.
_KEPT = ("loopback", "stored", "disk", "copy", "crc32c")
_FLUSHED = ("loopback", "disk_flushed", "copy", "crc32c")
_HANDED_OUT = ("loopback", "copy", "crc32c")
LIMITS = (
    ("produce_100b_acksall_disk", (*_FLUSHED, "librdkafka_flushed_100b")),
    ("produce_1k_acksall_disk", (*_FLUSHED, "librdkafka_flushed_1k")),
    ("produce_100b_acksall", (*_KEPT, "librdkafka_acksall_100b")),
    ("produce_1k_acksall", (*_KEPT, "librdkafka_acksall_1k")),
    ("produce_100b_acks1", (*_KEPT, "librdkafka_acks1_100b")),
    ("produce_1k_acks1", (*_KEPT, "librdkafka_acks1_1k")),
    ("partitions_", (*_KEPT, "librdkafka_acks1_100b")),
    ("produce_java_100b_acks1", (*_KEPT, "java_acks1_100b")),
    ("produce_java_1k_acksall", (*_KEPT, "java_acksall_1k")),
    ("produce", _KEPT),
    ("size_", _KEPT),
    ("consume_100b", (*_HANDED_OUT, "librdkafka_consume_100b")),
    ("consume_1k", (*_HANDED_OUT, "librdkafka_consume_1k")),
    ("consume_java_100b", (*_HANDED_OUT, "java_consume_100b")),
    ("consume_java_1k", (*_HANDED_OUT, "java_consume_1k")),
    ("consume", _HANDED_OUT),
)
# What a GB of a case costs a broker at least: the rows of ceilings.py for processor time.
COSTS = (
    ("produce_100b_acksall_disk", "librdkafka_flushed_100b.cpu"),
    ("produce_1k_acksall_disk", "librdkafka_flushed_1k.cpu"),
    ("produce_100b_acksall", "librdkafka_stored_acksall_100b.cpu"),
    ("produce_1k_acksall", "librdkafka_stored_acksall_1k.cpu"),
    ("produce_100b_acks1", "librdkafka_stored_acks1_100b.cpu"),
    ("produce_1k_acks1", "librdkafka_stored_acks1_1k.cpu"),
    ("partitions_", "librdkafka_stored_acks1_100b.cpu"),
    ("produce_java_100b_acks1", "java_stored_acks1_100b.cpu"),
    ("produce_java_1k_acksall", "java_stored_acksall_1k.cpu"),
    ("consume_", "sendfile"),
)
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

HEADINGS = (
    "case",
    "ChordMQ",
    "peer",
    "which",
    "unit",
    "ratio",
    "at best",
    "of the ceiling",
    "target",
    "met",
)
TEXTS = ("case", "which", "unit", "target")

Row = dict[str, Any]


def rows(ours: Iterable[Sample], peers: Iterable[Sample]) -> list[Row]:
    """Return a row for each name and peer, with the medians of the rounds."""
    mine, theirs = _by_name(ours), _by_name(peers)
    found: list[Row] = []
    for name in {**mine, **theirs}:
        rivals = [(rival, mine[of]) for rival, of in _rivals(name) if of in mine]
        if rivals:
            found += [_row(mine[name], samples, rival) for rival, samples in rivals]
        elif not _is_rival(name, mine):
            stand_ins = (who for start, who in STAND_INS.items() if name.startswith(start))
            peer = next(stand_ins, PEER_NAME)
            found.append(_row(mine.get(name, []), theirs.get(name, []), peer))
    _compare_with_ceilings(found)
    return found


def _rivals(name: str) -> list[tuple[str, str]]:
    """Return the peers that ran beside this case, and what their rows are called."""
    front, _, rest = name.partition("_")
    return [(rival, f"{rival}_{rest}") for rival in RIVALS.get(front, ())]


def _is_rival(name: str, mine: dict[str, list[Sample]]) -> bool:
    """Return whether a row is shown beside one of ours already."""
    rival, _, rest = name.partition("_")
    return any(f"{front}_{rest}" in mine for front, rivals in RIVALS.items() if rival in rivals)


def _compare_with_ceilings(found: list[Row]) -> None:
    """Note how much of the tightest ceiling the Kafka cases reach, and the best ratio there is.

    The part is one of medians. What no broker could do is measured by the best of the rounds,
    because what was reached once can be reached.
    """
    ceilings = {row["name"]: row for row in found if row["name"].startswith("ceiling.")}
    for row in found:
        if row["name"].endswith(".cpu_per_gb"):
            row["at_best"] = _least_ratio(row, ceilings)
            continue
        kinds = next((kinds for start, kinds in LIMITS if row["name"].startswith(start)), ())
        passed = [ceilings[f"ceiling.{k}"] for k in kinds if f"ceiling.{k}" in ceilings]
        if passed and row["ours_mb_s"]:
            row["of_ceiling"] = row["ours_mb_s"] / min(one["ours"] for one in passed)
        if passed and row["peer_mb_s"]:
            row["at_best"] = min(max(one["ours_rounds"]) for one in passed) / row["peer_mb_s"]


def _least_ratio(row: Row, ceilings: dict[str, Row]) -> float | None:
    """Return what a broker has of the peer's processor time that does only what it must."""
    kind = next((kind for start, kind in COSTS if row["name"].startswith(start)), "")
    floor = ceilings.get(f"ceiling.{kind}")
    return min(floor["ours_rounds"]) / row["peer"] if floor and row["peer"] else None


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
        f"| {' | '.join(HEADINGS)} |",
        "|---|---:|---:|---|---|---:|---:|---:|---|---|",
    ]
    for row in found:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        lines.append(f"| {' | '.join((*_cells(row), met))} |")
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["name"],
        _spread(row["ours"], row["ours_rounds"]),
        _spread(row["peer"], row["peer_rounds"]),
        "" if row["peer"] is None else row["peer_name"],
        row["unit"],
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "" if row["at_best"] is None else f"{row['at_best']:.2f}",
        "" if row["of_ceiling"] is None else f"{row['of_ceiling']:.0%}",
        row["target"],
    )


def show(found: list[Row], console: Console) -> None:
    """Print the rows with their targets."""
    table = Table(title="ChordMQ against its peers: median of the rounds [lowest, highest]")
    for heading in HEADINGS:
        side: Literal["left", "right"] = "left" if heading in TEXTS else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    for row in found:
        met = {True: "[green]yes", False: "[red]no", None: ""}[row["met"]]
        table.add_row(*_cells(row), met)
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


def _row(ours: list[Sample], peers: list[Sample], peer_name: str) -> Row:
    first = (ours or peers)[0]
    mine, theirs = _median(ours, "value"), _median(peers, "value")
    ratio = mine / theirs if mine is not None and theirs else None
    goal = first.goal or (peers[0].name if peers else "")
    target, met = _target(first.name, goal, mine, ratio)
    return {
        "name": first.name,
        "ours": mine,
        "peer": theirs,
        "peer_name": peer_name,
        "ratio": ratio,
        "unit": first.unit,
        "ours_cpu_s": _median(ours, "cpu_s"),
        "peer_cpu_s": _median(peers, "cpu_s"),
        "ours_rss_mb": _median(ours, "rss_mb"),
        "peer_rss_mb": _median(peers, "rss_mb"),
        "command": first.command,
        "ours_mb_s": _median(ours, "mb_s"),
        "peer_mb_s": _median(peers, "mb_s"),
        "at_best": None,
        "of_ceiling": None,
        "target": target,
        "met": met,
        "ours_rounds": [sample.value for sample in ours],
        "peer_rounds": [sample.value for sample in peers],
    }


def _target(
    name: str, goal: str, mine: float | None, ratio: float | None
) -> tuple[str, bool | None]:
    """Return the target in words and whether it is met (None when it cannot be said)."""
    words: list[str] = []
    verdicts: list[bool] = []
    if goal in GOALS:
        sign, compare, factor = GOALS[goal]
        words.append(f"{sign} {factor:g} times")
        verdicts += [] if ratio is None else [compare(ratio, factor)]
    if name in FLOORS:
        words.append(f"≥ {FLOORS[name]:,}")
        verdicts += [] if mine is None else [mine >= FLOORS[name]]
    if name in CEILINGS:
        words.append(f"≤ {CEILINGS[name]:g}")
        verdicts += [] if mine is None else [mine <= CEILINGS[name]]
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

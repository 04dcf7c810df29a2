"""Shows what a node does, again and again, as `top` does for a machine."""

import time
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.http import DEFAULT_URL, Url, call, fetch
from chordmq.cli.options import Json
from chordmq.cli.output import console, show_json, thousands
from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from rich.console import Group

TOPICS_SHOWN = 20

Labelled = tuple[str, tuple[str, ...]]
"""The name of a measure, and the values of its labels."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All measures of a node at one moment."""

    at_s: float
    values: Mapping[Labelled, float] = field(default_factory=dict)

    def get(self, name: str, *labels: str) -> float:
        """Return one measure; one that is not there is 0."""
        return self.values.get((name, labels), 0.0)

    def labels(self, name: str) -> list[str]:
        """Return the first labels under which a measure is told."""
        return [found[0] for known, found in self.values if known == name and found]

    def total(self, name: str) -> float:
        """Return the sum over all labels."""
        return sum(value for (known, _), value in self.values.items() if known == name)


def read_sample(text: str, at_s: float) -> Sample:
    """Read measures in Prometheus' text form."""
    from prometheus_client.parser import text_string_to_metric_families

    return Sample(
        at_s,
        {
            (one.name, tuple(one.labels.values())): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        },
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What has happened between two moments."""

    before: Sample
    after: Sample

    def rate(self, name: str, *labels: str) -> float:
        """Return by how much a measure grows in a second."""
        seconds = max(self.after.at_s - self.before.at_s, 1e-9)
        return max(self.after.get(name, *labels) - self.before.get(name, *labels), 0.0) / seconds

    def node(self) -> dict[str, float]:
        """Return the numbers of the whole node."""
        topics = self.after.labels("chordmq_partitions")
        return {
            "records_in_per_s": sum(self.rate("chordmq_records_in_total", one) for one in topics),
            "bytes_in_per_s": sum(self.rate("chordmq_bytes_in_total", one) for one in topics),
            "bytes_out_per_s": sum(self.rate("chordmq_bytes_out_total", one) for one in topics),
            "cpu_cores": self.rate("process_cpu_seconds_total"),
            "memory_bytes": self.after.get("process_resident_memory_bytes"),
            "log_bytes": self.after.total("chordmq_log_bytes"),
            "disk_free_bytes": self.after.get("chordmq_disk_free_bytes"),
            "loop_lag_ms": self.after.get("chordmq_loop_lag_last_seconds") * 1000,
            "devices_connected": self.after.get("chordmq_iot_devices_connected"),
        }

    def fronts(self) -> list[dict[str, Any]]:
        """Return who is connected by which protocol, and what they say."""
        return [
            {
                "front": name,
                "connections": self.after.get("chordmq_connections", name),
                "messages_in_per_s": self.rate(f"chordmq_{name}_messages_in_total"),
                "messages_out_per_s": self.rate(f"chordmq_{name}_messages_out_total"),
            }
            for name in self.after.labels("chordmq_connections")
        ]

    def topics(self) -> list[dict[str, Any]]:
        """Return the topics, the busiest first."""
        found = [
            {
                "topic": name,
                "partitions": self.after.get("chordmq_partitions", name),
                "records_in_per_s": self.rate("chordmq_records_in_total", name),
                "bytes_in_per_s": self.rate("chordmq_bytes_in_total", name),
                "bytes_out_per_s": self.rate("chordmq_bytes_out_total", name),
                "log_bytes": self.after.get("chordmq_log_bytes", name),
            }
            for name in self.after.labels("chordmq_partitions")
        ]
        return sorted(
            found, key=lambda row: (-row["bytes_in_per_s"] - row["bytes_out_per_s"], row["topic"])
        )


def top(
    interval_s: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, print, and end.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what a node does: rates, memory, connections by protocol, the busiest topics.

    \b
      chordmq top
      chordmq top --once
      chordmq top --json --interval 10          one JSON document every ten seconds
    """
    from rich.live import Live

    about = call(url, "GET", "/v1/info", as_json=as_json)
    before = _look(url, as_json)
    if as_json or once:
        while True:
            time.sleep(interval_s)
            after = _look(url, as_json)
            change, before = Change(before, after), after
            if as_json:
                parts = {"node": change.node(), "fronts": change.fronts()}
                show_json(parts | {"topics": change.topics()})
            else:
                console().print(screen(about, change))
            if once:
                return
    with Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            after = _look(url, as_json)
            live.update(screen(about, Change(before, after)), refresh=True)
            before = after


def screen(about: Mapping[str, Any], change: Change) -> "Group":
    """Draw everything."""
    from rich.console import Group
    from rich.text import Text

    node = change.node()
    lines = [
        f"ChordMQ {about['version']}  node {about['node_id']}  {about['kafka']}",
        f"in {thousands(node['records_in_per_s'])} records/s, {size(node['bytes_in_per_s'])}/s   "
        f"out {size(node['bytes_out_per_s'])}/s   log {size(node['log_bytes'])}   "
        f"disk free {size(node['disk_free_bytes'])}",
        f"cpu {node['cpu_cores']:.2f} cores   memory {size(node['memory_bytes'])}   "
        f"loop lag {node['loop_lag_ms']:.1f} ms   "
        f"devices connected {thousands(node['devices_connected'])}",
    ]
    fronts = [
        [row["front"], *(thousands(row[name]) for name in row if name != "front")]
        for row in change.fronts()
    ]
    topics = [
        [
            row["topic"],
            thousands(row["partitions"]),
            thousands(row["records_in_per_s"]),
            size(row["bytes_in_per_s"]),
            size(row["bytes_out_per_s"]),
            size(row["log_bytes"]),
        ]
        for row in change.topics()[:TOPICS_SHOWN]
    ]
    return Group(
        Text("\n".join(lines) + "\n"),
        _table(["PROTOCOL", "CONNECTIONS", "IN/S", "OUT/S"], fronts),
        Text(""),
        _table(["TOPIC", "PARTITIONS", "RECORDS/S", "IN/S", "OUT/S", "LOG"], topics),
    )


def size(number: float) -> str:
    """Write bytes so that people can read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _look(url: str, as_json: bool) -> Sample:
    return read_sample(fetch(url, "/metrics", as_json=as_json), time.monotonic())


def _table(columns: list[str], rows: list[list[str]]) -> Any:
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table

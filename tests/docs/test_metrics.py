"""The page of metrics: every one that a node tells is on it."""

import re
import urllib.request

from tests.docs.test_guarantees import ROOT
from tests.running_node import RunningNode


def test_every_metric_of_a_node_is_explained(node: RunningNode) -> None:
    """X2, D15: with its kind, as Prometheus hears it."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \S", (ROOT / "docs/metrics.md").read_text(), re.M)
    with urllib.request.urlopen(f"{node.http}/metrics", timeout=60) as answer:
        told = re.findall(r"^# TYPE (chordmq_\w+) (\w+)", answer.read().decode(), re.M)
    assert told
    assert set(told) <= set(rows)

"""Draws what a run has found, as pictures for docs/performance.md: `python -m benchmarks.plots`."""

import argparse
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.peers import ROOT
from benchmarks.report import OUT

WIDTH, LABEL, WIDE_LABEL, ROW, MARGIN, ROOM = 860, 300, 340, 22, 16, 110
GOOD, BAD, LINE = "#1d7a3f", "#b3261e", "#8a94a0"
CURVE = (440, 260, 56)
"""Width, height and margin of a curve."""

CURVES = {
    "partitions": ("partitions_", "100 B messages/s over partitions", "msg/s"),
    "sizes": ("size_", "MB/s over bytes of a message", "MB/s"),
    "connections": ("in_turn_", "requests/s over connections that wait for answers", "requests/s"),
    "consumers": ("consumers_", "1 KiB messages/s over consumers of one topic", "msg/s"),
}
"""Name of the picture: how its rows begin, its title and its unit."""

Row = dict[str, Any]


def bars(rows: Sequence[Row]) -> str:
    """Draw the ratio to the peer of each row; to the right of the line is better."""
    shown = [(_title(row), goodness(row), row.get("met")) for row in rows if row.get("ratio")]
    shown.sort(key=lambda one: -one[1])
    height = len(shown) * ROW + 2 * MARGIN + 20
    middle = LABEL + (WIDTH - LABEL - ROOM) / 2
    scale = (WIDTH - LABEL - ROOM) / 2 / max((abs(math.log2(v)) for _, v, _ in shown), default=1)
    parts = [_text(middle, MARGIN, "the peer = 1", "middle")]
    for number, (name, value, is_met) in enumerate(shown):
        y = MARGIN + 12 + number * ROW
        length = math.log2(value) * scale
        colour = BAD if is_met is False else GOOD
        x, width = (middle, length) if length >= 0 else (middle + length, -length)
        parts.append(_text(LABEL - 8, y + 14, name, "end"))
        parts.append(_bar(x, y, width, colour))
        at, anchor = (x + width + 5, "start") if length >= 0 else (x - 5, "end")
        parts.append(_text(at, y + 13, f"{value:.2f} times", anchor))
    parts.append(
        f'<path d="M{middle:.1f} {MARGIN + 6}V{height - MARGIN}" stroke="{LINE}" fill="none"/>'
    )
    return _picture(WIDTH, height, parts)


def _title(row: Row) -> str:
    """Return the name of a row, with its peer where that is not the one of the page."""
    is_kafka = str(row["peer_name"]).startswith("Apache Kafka")
    return str(row["name"]) if is_kafka else f"{row['name']} / {row['peer_name']}"


def percentiles(rows: Sequence[Row]) -> str:
    """Draw latencies, ours above the peer's; shorter is better."""
    shown = [
        (f"{_title(row)}, {whose}", float(row[side]), colour)
        for row in rows
        if ".p" in row["name"] and row["unit"] == "ms" and row.get("ours") and row.get("peer")
        for whose, side, colour in (("ChordMQ", "ours", GOOD), (row["peer_name"], "peer", LINE))
    ]
    longest = max((value for _, value, _ in shown), default=1)
    parts = []
    for number, (name, value, colour) in enumerate(shown):
        y = MARGIN + number * ROW + (number // 2) * 6
        width = value / longest * (WIDTH - WIDE_LABEL - ROOM)
        parts.append(_text(WIDE_LABEL - 8, y + 13, name, "end"))
        parts.append(_bar(WIDE_LABEL, y, width, colour))
        parts.append(_text(WIDE_LABEL + width + 5, y + 13, f"{value:.3g} ms", "start"))
    return _picture(WIDTH, len(shown) * ROW + len(shown) * 3 + 2 * MARGIN, parts)


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="16" fill="{colour}"/>'


def goodness(row: Row) -> float:
    """Return how many times better we are: where less is better, the ratio is turned round."""
    ratio = float(row["ratio"])
    is_less_better = row["unit"] in ("ms", "s", "MB", "CPU s/GB", "% of a core", "s/GiB")
    return 1 / max(ratio, 1e-6) if is_less_better else max(ratio, 1e-6)


def curve(title: str, points: Sequence[tuple[float, float, float | None]], unit: str) -> str:
    """Draw how a number grows, over a logarithmic axis: x, ours and the peer's."""
    width, height, margin = CURVE
    top = max(max(ours, peer or 0) for _, ours, peer in points)
    low, high = math.log10(points[0][0]), math.log10(points[-1][0])

    def place(x: float, y: float) -> str:
        across = (math.log10(x) - low) / max(high - low, 1e-9)
        return (
            f"{margin + across * (width - 2 * margin):.1f},"
            f"{height - margin - y / top * (height - 2 * margin):.1f}"
        )

    ours = " ".join(place(x, y) for x, y, _ in points)
    peers = " ".join(place(x, peer) for x, _, peer in points if peer is not None)
    parts = [
        _text(width / 2, 18, title, "middle"),
        _text(width - margin, 36, "green: ChordMQ, grey: the peer", "end"),
        f'<polyline points="{peers}" stroke="{LINE}" fill="none" stroke-width="2"/>',
        f'<polyline points="{ours}" stroke="{GOOD}" fill="none" stroke-width="2"/>',
        _text(margin - 6, margin, f"{top:,.0f} {unit}", "start"),
        *(
            _text(float(place(x, 0).split(",")[0]), height - margin + 18, f"{x:,.0f}", "middle")
            for x, _, _ in points
        ),
    ]
    return _picture(width, height, parts)


def series(rows: Sequence[Row], prefix: str, unit: str) -> list[tuple[float, float, float | None]]:
    """Return the rows whose names are a prefix and a number, in the unit that they are drawn in."""
    found = []
    ours, peer = ("ours_mb_s", "peer_mb_s") if unit == "MB/s" else ("ours", "peer")
    for row in rows:
        tail = str(row["name"]).removeprefix(prefix)
        if row["name"].startswith(prefix) and tail.isdigit() and row.get(ours) is not None:
            found.append((float(tail), float(row[ours]), row.get(peer)))
    return sorted(found)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(width: int, height: int, parts: Sequence[str]) -> str:
    style = "text{font:12px system-ui,sans-serif;fill:#5a6876}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><style>{style}</style>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Read the rows of the last run, and write the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("rows", type=Path, nargs="?", default=OUT / "latest.json")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img")
    options = parser.parse_args()
    rows = json.loads(options.rows.read_text())
    (options.to / "performance_ratios.svg").write_text(bars(rows))
    (options.to / "performance_latency.svg").write_text(percentiles(rows))
    for name, (prefix, title, unit) in CURVES.items():
        points = series(rows, prefix, unit)
        if len(points) > 1:
            (options.to / f"performance_{name}.svg").write_text(curve(title, points, unit))


if __name__ == "__main__":
    main()

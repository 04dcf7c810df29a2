"""Shows the cluster: its nodes, the ring on which they stand, and who owns a key."""

from math import cos, pi, sin
from typing import Annotated, Any
from urllib.parse import quote

import typer

from chordmq.cli.http import DEFAULT_URL, Body, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import show_facts, show_json, show_table

RADIUS_ROWS = 7
COLUMNS_PER_ROW = 2.1
"""A letter is about twice as high as it is wide."""
LABEL_WIDTH = 40
DOTS = 72

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show the nodes of a cluster and the ring on which they stand.

    \b
      chordmq cluster show
      chordmq cluster owner orders-0
    """,
)


@app.command()
def show(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Draw the ring and list the nodes.

    \b
      chordmq cluster show
      chordmq cluster show --url http://node2:8080 --json
    """
    found = call(url, "GET", "/v1/cluster", as_json=as_json)
    if as_json:
        show_json(found)
        return
    if found["ring"]:
        print("\n".join(draw(found["nodes"])), end="\n\n")
    show_table(
        ["#NODE", "STATE", "KAFKA", "RACK", "PLACE", "#LEADS", "#HOLDS"],
        [
            (n["id"], state_of(n), n["kafka"], n["rack"], n["place"][:8], n["leads"], n["holds"])
            for n in found["nodes"]
        ],
    )
    print()
    show_facts(facts_of(found))


@app.command()
def owner(
    key: Annotated[str, typer.Argument(help="Any name.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Find the node that owns a key, by asking along the ring.

    \b
      chordmq cluster owner orders-0
    """
    found = call(url, "GET", f"/v1/cluster/owners/{quote(key, safe='')}", as_json=as_json)
    if as_json:
        show_json(found)
    else:
        show_facts({"node": found["node"], "nodes asked": found["hops"]})


def state_of(node: Body) -> str:
    """Return what there is to know of a node in a few words."""
    if not node["live"]:
        return "away"
    words = "controller" if node["controller"] else "live"
    return words if node["linked"] else f"{words}, no link"


def facts_of(cluster: Body) -> dict[str, object]:
    """Return what there is to know of the cluster as a whole."""
    facts: dict[str, object] = {
        "cluster": cluster["id"],
        "topics": f"{cluster['topics']}, with {cluster['partitions']} partitions",
        "groups": cluster["groups"],
    }
    ring: dict[str, Any] | None = cluster["ring"]
    if ring is not None:
        mean = ring["hops"] / ring["lookups"] if ring["lookups"] else 0.0
        facts["successors"] = ", ".join(map(str, ring["successors"])) or "none"
        facts["predecessor"] = "none" if ring["predecessor"] is None else ring["predecessor"]
        facts["fingers"] = ", ".join(map(str, ring["fingers"])) or "none"
        facts["look-ups"] = f"{ring['lookups']}, {mean:.1f} nodes asked on average"
    return facts


def draw(nodes: list[Body]) -> list[str]:
    """Return the ring as lines: zero is at the top, places grow clockwise."""
    middle = round(RADIUS_ROWS * COLUMNS_PER_ROW) + LABEL_WIDTH
    lines = [[" "] * (2 * middle + LABEL_WIDTH) for _ in range(2 * RADIUS_ROWS + 1)]

    def spot(turn: float) -> tuple[int, int]:
        row = RADIUS_ROWS - round(RADIUS_ROWS * cos(2 * pi * turn))
        return row, middle + round(RADIUS_ROWS * COLUMNS_PER_ROW * sin(2 * pi * turn))

    for dot in range(DOTS):
        row, column = spot(dot / DOTS)
        lines[row][column] = "·"
    for node in sorted(nodes, key=lambda node: str(node["place"])):
        turn = int(node["place"] or "0", 16) / 2**64
        row, column = spot(turn)
        mark = "†" if not node["live"] else "*" if node["controller"] else ""
        label = f"({node['id']}{mark})"
        # Who stands where another stands already is written beside it, further out.
        step = len(label) if turn <= 0.5 else -len(label)
        start = column if turn <= 0.5 else column - len(label) + 1
        while any(letter not in " ·" for letter in lines[row][start : start + len(label)]):
            start += step
        lines[row][start : start + len(label)] = label
    shown = ["".join(line).rstrip() for line in lines]
    indent = min(len(line) - len(line.lstrip()) for line in shown)
    return [line[indent:] for line in shown]

"""`chordmq cluster`: the ring as a drawing, and what a node alone says."""

from chordmq.cli.cluster import draw
from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


def row(
    number: int, turn: float, *, live: bool = True, controller: bool = False
) -> dict[str, object]:
    place = f"{int(turn * 2**64):016x}"
    return {"id": number, "place": place, "live": live, "controller": controller}


def test_the_ring_is_drawn_clockwise_from_the_top() -> None:
    lines = draw(
        [row(1, 0.0), row(2, 0.25, controller=True), row(3, 0.5), row(4, 0.75, live=False)]
    )
    middle = lines[7]
    assert "(1)" in lines[0]
    assert "(3)" in lines[-1]
    assert middle.index("(4†)") < middle.index("(2*)")
    assert len(lines) == 15


def test_nodes_that_stand_close_together_are_all_shown() -> None:
    for turn in (0.1, 0.45, 0.6, 0.9):
        lines = draw([row(number, turn + number / 10_000) for number in range(1, 6)])
        text = "\n".join(lines)
        assert all(f"({number})" in text for number in range(1, 6))


def test_a_node_alone_is_listed_without_a_ring(cli: CommandLine, node: RunningNode) -> None:
    shown = cli.ok("cluster", "show", "--url", node.http)
    assert "controller" in shown.out
    assert "·" not in shown.out
    data = cli.ok("cluster", "show", "--url", node.http, "--json").data
    assert [row["live"] for row in data["nodes"]] == [True]
    assert data["ring"] is None
    refused = cli("cluster", "owner", "orders", "--url", node.http)
    assert refused.status == 1
    assert "alone" in refused.err

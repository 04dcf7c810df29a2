"""The tree of nodes: who gets which role and parent, and what is refused."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.topology.registry.nodes import (
    RANKS,
    Node,
    Pin,
    Registration,
    Role,
    Topology,
    TopologyRefused,
    checked,
    expired,
    left,
    pinned,
    registered,
)


def said(role: Role | None = None, capacity: int = 100, **labels: str) -> Registration:
    return Registration(url="http://node", role=role, capacity=capacity, labels=labels)


def tree(nodes: Mapping[str, Registration]) -> Topology:
    topology = Topology()
    for name, one in nodes.items():
        topology = registered(topology, name, one, 0)
    return topology


def parents(topology: Topology) -> dict[str, str | None]:
    return {name: node.parent for name, node in topology.nodes.items()}


def test_the_first_node_is_the_root_and_others_are_leaves_unless_they_say_more() -> None:
    """D11: nodes register and get a role and a parent."""
    topology = tree({"a": said(), "b": said(), "c": said("L2")})
    assert [node.role for node in topology.nodes.values()] == ["ROOT", "LOCAL", "L2"]
    assert parents(topology) == {"a": None, "b": "a", "c": "a"}


def test_a_parent_is_near_in_rank_and_alike_in_labels() -> None:
    nodes = {
        "root": said("ROOT"),
        "east": said("L2", region="east"),
        "west": said("L2", region="west"),
    }
    topology = tree({**nodes, "shop": said("POS", region="west")})
    assert parents(topology)["shop"] == "west"


def test_a_full_parent_is_not_chosen() -> None:
    nodes = {"root": said("ROOT"), "x": said("L2", capacity=1), "y": said("L2", capacity=2)}
    topology = tree({**nodes, "1": said("POS"), "2": said("POS"), "3": said("POS")})
    assert sorted(str(parents(topology)[name]) for name in "123") == ["x", "y", "y"]
    assert parents(registered(topology, "4", said("POS"), 0))["4"] == "root"


def test_children_of_the_dead_go_elsewhere_and_stay_there() -> None:
    """D11: reassignment when a parent dies; who has a good parent keeps it."""
    topology = tree({"root": said("ROOT"), "x": said("L2"), "y": said("L2"), "leaf": said("POS")})
    assert parents(topology)["leaf"] == "x"
    for name in ("root", "y", "leaf"):
        topology = registered(topology, name, said(topology.nodes[name].role), 20_000)
    after = expired(topology, 20_000)
    assert after.version > topology.version
    assert not after.nodes["x"].alive
    assert parents(after)["leaf"] == "y"
    back = registered(after, "x", said("L2"), 21_000)
    assert parents(back)["leaf"] == "y"


def test_with_nobody_else_a_dead_parent_is_kept_for_its_return() -> None:
    topology = tree({"root": said("ROOT"), "leaf": said("POS")})
    topology = registered(topology, "leaf", said("POS"), 20_000)
    assert parents(expired(topology, 20_000))["leaf"] == "root"


def test_a_pinned_parent_beats_policy_and_comes_back_after_its_death() -> None:
    topology = tree({"root": said("ROOT"), "x": said("L2"), "y": said("L2"), "leaf": said("POS")})
    topology = pinned(topology, "leaf", Pin(parent="y"))
    assert parents(topology)["leaf"] == "y"
    for name in ("root", "x", "leaf"):
        topology = registered(topology, name, said(topology.nodes[name].role), 20_000)
    topology = expired(topology, 20_000)
    assert parents(topology)["leaf"] == "x"
    assert parents(registered(topology, "y", said("L2"), 21_000))["leaf"] == "y"


def test_a_sign_of_life_makes_no_new_version() -> None:
    topology = tree({"root": said("ROOT"), "leaf": said("POS")})
    assert registered(topology, "leaf", said("POS"), 5).version == topology.version


def test_a_second_root_is_refused() -> None:
    with pytest.raises(TopologyRefused, match="two roots, a and b"):
        tree({"a": said("ROOT"), "b": said("ROOT")})


def test_an_unknown_parent_is_refused() -> None:
    with pytest.raises(TopologyRefused, match="unknown parent nobody"):
        pinned(tree({"root": said()}), "root", Pin(parent="nobody"))


def test_a_cycle_is_refused() -> None:
    topology = tree({"root": said("ROOT"), "x": said("L2"), "y": said("L3")})
    with pytest.raises(TopologyRefused, match="cycle"):
        pinned(topology, "x", Pin(parent="y"))
    with pytest.raises(TopologyRefused, match="cycle: x -> x"):
        pinned(topology, "x", Pin(parent="x"))
    one, two = (Node(id=a, url="", role="L2", parent=b) for a, b in ("xy", "yx"))
    with pytest.raises(TopologyRefused, match="cycle: x -> y -> x"):
        checked({"x": one, "y": two})


def test_a_node_that_leaves_is_gone_but_not_from_under_who_is_pinned_to_it() -> None:
    topology = tree({"root": said("ROOT"), "x": said("L2"), "leaf": said("POS")})
    assert parents(left(topology, "x")) == {"root": None, "leaf": "root"}
    with pytest.raises(TopologyRefused, match="pinned"):
        left(pinned(topology, "leaf", Pin(parent="x")), "x")
    with pytest.raises(TopologyRefused, match="no node"):
        left(topology, "nobody")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["register", "leave", "expire", "pin"]),
            st.sampled_from("abcdef"),
            st.sampled_from([None, *RANKS]),
            st.sampled_from("abcdef"),
        ),
        max_size=30,
    )
)
def test_whatever_happens_it_stays_a_tree(
    steps: list[tuple[str, str, Role | None, str]],
) -> None:
    topology, now_ms = Topology(), 0
    for act, name, role, other in steps:
        now_ms += 4000
        before = topology
        try:
            if act == "register":
                topology = registered(topology, name, said(role), now_ms)
            elif act == "leave":
                topology = left(topology, name)
            elif act == "pin":
                topology = pinned(topology, name, Pin(parent=other, role=role))
            else:
                topology = expired(topology, now_ms)
        except TopologyRefused:
            topology = before
        checked(topology.nodes)
        assert topology.version >= before.version

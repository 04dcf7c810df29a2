"""Who stands where in the tree of nodes: roles, parents, and what happens when one dies (pure)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from chordmq.topology.settings import CAPACITY

Role = Literal["ROOT", "L2", "L3", "POS", "LOCAL"]
Health = Literal["HEALTHY", "DEGRADED", "UNHEALTHY"]

RANKS: dict[Role, int] = {"ROOT": 0, "L2": 1, "L3": 2, "POS": 3, "LOCAL": 4}
"""A parent's rank is below that of its children; the nearest rank is the best."""
DEAD_AFTER_MS = 10_000


class TopologyRefused(Exception):
    """A change would leave something that is no tree; the message says why."""


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node says of itself, again and again while it lives."""

    url: str
    """Where its children find it over HTTP."""
    role: Role | None = None
    """What it wants to be; without a wish the first node is ROOT and the others LOCAL."""
    labels: dict[str, str] = {}
    """Such as its region; a parent with more labels in common is preferred."""
    capacity: int = CAPACITY
    """How many children it takes."""
    health: Health = "HEALTHY"
    """How its own pipes are."""
    lag: int = 0
    """Records that it has still to get from its parent."""


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator has decided about a node, against all policy."""

    parent: str | None = None
    role: Role | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it stands in the tree."""

    id: str
    url: str
    role: Role
    parent: str | None = None
    labels: dict[str, str] = {}
    capacity: int = CAPACITY
    alive: bool = True
    pin: Pin = Pin()
    health: Health = "HEALTHY"
    lag: int = 0
    seen_ms: int = 0


class Topology(msgspec.Struct, frozen=True):
    """The tree at one version; the version grows when roles, parents or addresses change."""

    version: int = 0
    nodes: dict[str, Node] = {}

    def parent_of(self, name: str) -> Node | None:
        """Return the parent of a node, if it has one."""
        node = self.nodes.get(name)
        return self.nodes.get(node.parent) if node is not None and node.parent else None

    def children_of(self, name: str) -> list[Node]:
        """Return the living children of a node."""
        found = [one for one in self.nodes.values() if one.parent == name and one.alive]
        return sorted(found, key=lambda one: one.id)


def registered(topology: Topology, name: str, said: Registration, now_ms: int) -> Topology:
    """Return the tree with a node that is new, is back, or has said how it is."""
    before = topology.nodes.get(name)
    pin = before.pin if before is not None else Pin()
    role = pin.role or said.role or (before.role if before else _free_role(topology))
    node = Node(
        id=name,
        url=said.url,
        role=role,
        parent=before.parent if before is not None else None,
        labels=said.labels,
        capacity=said.capacity,
        pin=pin,
        health=said.health,
        lag=said.lag,
        seen_ms=now_ms,
    )
    return _changed(topology, {**topology.nodes, name: node})


def pinned(topology: Topology, name: str, pin: Pin) -> Topology:
    """Return the tree with what an operator wants; refuse what is no tree."""
    node = _known(topology, name)
    role = pin.role or node.role
    if pin.parent is not None:
        _check_parent(topology, name, role, pin.parent)
    changed = msgspec.structs.replace(node, pin=pin, role=role)
    return _changed(topology, {**topology.nodes, name: changed})


def left(topology: Topology, name: str) -> Topology:
    """Return the tree without a node; its children get other parents."""
    _known(topology, name)
    for child in topology.nodes.values():
        if child.pin.parent == name:
            raise TopologyRefused(f"{child.id} is pinned to {name}; pin it elsewhere first")
    return _changed(topology, {key: one for key, one in topology.nodes.items() if key != name})


def expired(topology: Topology, now_ms: int, dead_after_ms: int = DEAD_AFTER_MS) -> Topology:
    """Return the tree after a look at who has been silent for too long."""
    nodes = {
        name: msgspec.structs.replace(one, alive=False)
        if one.alive and now_ms - one.seen_ms > dead_after_ms
        else one
        for name, one in topology.nodes.items()
    }
    return _changed(topology, nodes)


def excused(topology: Topology, now_ms: int) -> Topology:
    """Return the tree as if every living node had just been heard of: the registry was away."""
    nodes = {
        name: msgspec.structs.replace(one, seen_ms=now_ms) if one.alive else one
        for name, one in topology.nodes.items()
    }
    return Topology(topology.version, nodes)


def checked(nodes: Mapping[str, Node]) -> None:
    """Refuse nodes that are no tree, with the reason."""
    roots = sorted(one.id for one in nodes.values() if one.role == "ROOT")
    if len(roots) > 1:
        raise TopologyRefused(f"two roots, {' and '.join(roots)}; one must be something else")
    for name, node in nodes.items():
        path = [name]
        while node.parent is not None:
            if node.parent not in nodes:
                raise TopologyRefused(f"{node.id} has the unknown parent {node.parent}")
            path.append(node.parent)
            if node.parent in path[:-1]:
                raise TopologyRefused(f"a cycle: {' -> '.join(path)}")
            node = nodes[node.parent]


def _changed(topology: Topology, nodes: dict[str, Node]) -> Topology:
    """Return the tree of these nodes with parents for all; a new version if places changed."""
    checked({name: msgspec.structs.replace(one, parent=None) for name, one in nodes.items()})
    placed = _placed(nodes)
    checked(placed)
    same = {k: _place(n) for k, n in placed.items()} == {
        k: _place(n) for k, n in topology.nodes.items()
    }
    return Topology(topology.version if same else topology.version + 1, placed)


def _place(node: Node) -> tuple[str, Role, str | None, bool, Pin]:
    return node.url, node.role, node.parent, node.alive, node.pin


def _placed(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Return all nodes with parents: who has a good one keeps it, then the others choose."""
    placed: dict[str, Node] = {}
    children: Counter[str] = Counter()
    order = sorted(nodes.values(), key=lambda one: (RANKS[one.role], one.id))
    waiting: list[Node] = []
    for node in order:
        kept = _kept(node, nodes)
        if kept is None and node.role != "ROOT":
            waiting.append(node)
            continue
        placed[node.id] = msgspec.structs.replace(node, parent=kept)
        children.update([kept] if kept else [])
    for node in waiting:
        parent = _best(node, order, children)
        placed[node.id] = msgspec.structs.replace(node, parent=parent)
        children.update([parent] if parent else [])
    return placed


def _kept(node: Node, nodes: Mapping[str, Node]) -> str | None:
    """Return the parent that a node is to keep: the pinned one, or one that is still good."""
    for wanted in (node.pin.parent, node.parent):
        parent = nodes.get(wanted) if wanted is not None else None
        if parent is not None and parent.alive and _is_above(parent, node):
            return parent.id
    last = nodes.get(node.parent) if node.parent is not None else None
    if last is not None and _is_above(last, node) and not _others(node, nodes.values()):
        return last.id  # dead, but there is nobody else: it may come back
    return None


def _is_above(one: Node, other: Node) -> bool:
    return RANKS[one.role] < RANKS[other.role]


def _others(node: Node, nodes: Iterable[Node]) -> list[Node]:
    return [one for one in nodes if one.alive and _is_above(one, node)]


def _best(node: Node, nodes: Iterable[Node], children: Counter[str]) -> str | None:
    """Return the best living parent: near in rank, alike in labels, with room for one more."""

    def worth(one: Node) -> tuple[int, int, float, str]:
        alike = len(node.labels.items() & one.labels.items())
        return -RANKS[one.role], -alike, children[one.id] / one.capacity, one.id

    fitting = [one for one in _others(node, nodes) if children[one.id] < one.capacity]
    return min(fitting, key=worth).id if fitting else None


def _check_parent(topology: Topology, name: str, role: Role, parent: str) -> None:
    if parent == name:
        raise TopologyRefused(f"a cycle: {name} -> {name}")
    if parent not in topology.nodes:
        raise TopologyRefused(f"{name} cannot have the unknown parent {parent}")
    above = topology.nodes[parent]
    if RANKS[above.role] >= RANKS[role]:
        raise TopologyRefused(
            f"a cycle could come of it: {parent} is {above.role}, which is not above {role}"
        )


def _known(topology: Topology, name: str) -> Node:
    if name not in topology.nodes:
        raise TopologyRefused(f"no node is called {name}")
    return topology.nodes[name]


def _free_role(topology: Topology) -> Role:
    return "LOCAL" if any(one.role == "ROOT" for one in topology.nodes.values()) else "ROOT"

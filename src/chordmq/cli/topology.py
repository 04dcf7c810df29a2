"""Shows and changes the tree of nodes that a registry keeps."""

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from chordmq.cli.http import Body, call
from chordmq.cli.options import Json
from chordmq.cli.output import say, show_json

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show the tree of parents and children, and change it.

    \b
      chordmq topology show
      chordmq topology pin shop-7 --parent west
      chordmq topology remove shop-7
    """,
)

DEFAULT_REGISTRY = "http://127.0.0.1:8090"
Registry = Annotated[
    str,
    typer.Option(
        "--registry", metavar="URL", envvar="CHORDMQ_REGISTRY", help="Address of the registry."
    ),
]
Node = Annotated[str, typer.Argument(help="Id of a node.")]


@app.command()
def show(registry: Registry = DEFAULT_REGISTRY, as_json: Json = False) -> None:
    """Draw the tree with the health and lag of each node.

    \b
      chordmq topology show
    """
    found = call(registry, "GET", "/v1/topology", as_json=as_json)
    if as_json:
        show_json(found)
        return
    print(f"version {found['version']}, {len(found['nodes'])} nodes")
    print("\n".join(draw(found["nodes"])))


@app.command()
def pin(
    node: Node,
    parent: Annotated[str | None, typer.Option(help="Its parent from now on.")] = None,
    role: Annotated[str | None, typer.Option(help="ROOT, L2, L3, POS or LOCAL.")] = None,
    registry: Registry = DEFAULT_REGISTRY,
) -> None:
    """Decide a node's parent or role; without options, leave both to policy again.

    \b
      chordmq topology pin shop-7 --parent west
    """
    body = {"parent": parent, "role": role}
    call(registry, "PUT", f"/v1/nodes/{quote(node, safe='')}/pin", body)
    say(f"{node} is {'pinned' if parent or role else 'left to policy'}")


@app.command()
def remove(node: Node, registry: Registry = DEFAULT_REGISTRY) -> None:
    """Take a node out of the tree for good.

    \b
      chordmq topology remove edge-3
    """
    call(registry, "DELETE", f"/v1/nodes/{quote(node, safe='')}")
    say(f"{node} is removed")


def draw(nodes: Body) -> Iterator[str]:
    """Yield the lines of the tree."""
    tops = sorted(name for name, one in nodes.items() if one["parent"] not in nodes)
    for name in tops:
        yield _label(nodes[name])
        yield from _below(nodes, name, "")


def _below(nodes: Body, parent: str, indent: str) -> Iterator[str]:
    children = sorted(name for name, one in nodes.items() if one["parent"] == parent)
    for name in children:
        is_last = name == children[-1]
        yield f"{indent}{'└─' if is_last else '├─'} {_label(nodes[name])}"
        yield from _below(nodes, name, indent + ("   " if is_last else "│  "))


def _label(node: dict[str, Any]) -> str:
    state = f"{node['health']}, lag {node['lag']}" if node["alive"] else "DEAD"
    pin = ", pinned" if node["pin"]["parent"] or node["pin"]["role"] else ""
    return f"{node['id']} ({node['role']}) {node['url']} {state}{pin}"

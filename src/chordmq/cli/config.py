"""Shows, explains and checks settings, and changes those of running nodes."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address, pairs
from chordmq.cli.output import fail, say, show_facts, show_json, show_table
from chordmq.cli.running import run
from chordmq.cli.serve import Assignments

T = TypeVar("T")

BROKER_PREFIX = "broker."

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show, explain and check settings; change those of running nodes.

    \b
      chordmq config show --config node.yaml --changed
      chordmq config explain kafka.advertised_host
      chordmq config validate node.yaml
      chordmq config get log.retention.ms
      chordmq config set log.retention.ms=86400000
    """,
)


def setting_names(incomplete: str) -> list[str]:
    """Return the settings that begin with what was typed."""
    from chordmq.config import known

    return [name for name in known() if name.startswith(incomplete)]


ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file with the settings.")
]
Changed = Annotated[bool, typer.Option("--changed", help="Only what is not the default.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The setting.", autocompletion=setting_names)
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Only these.", autocompletion=setting_names),
]


@app.command()
def show(
    names: Names = None,
    file: ConfigFile = None,
    assignments: Assignments = None,
    changed: Changed = False,
    as_json: Json = False,
) -> None:
    """Show what a node started here would run with, and where each value comes from.

    A flag (--set) beats the environment, that beats the file, and that the default.

    \b
      chordmq config show
      chordmq config show --config node.yaml --changed
      CHORDMQ_KAFKA_PORT=19092 chordmq config show kafka.port --json
    """
    from chordmq.cli.setting_facts import effective, meaning

    wanted = _checked(lambda: [meaning(name).name for name in names or []], as_json)
    facts = _checked(lambda: list(effective(file, os.environ, assignments or [])), as_json)
    rows = [
        asdict(fact)
        for fact in facts
        if (not wanted or fact.name in wanted) and (not changed or fact.source != "default")
    ]
    if as_json:
        show_json(rows)
        return
    show_table(["SETTING", "VALUE", "FROM", "+DEFAULT"], [tuple(row.values()) for row in rows])


@app.command()
def explain(name: Name, as_json: Json = False) -> None:
    """Tell what a setting is for, its type, its default and how to give it.

    \b
      chordmq config explain kafka.advertised_host
      chordmq config explain log.retention.ms
    """
    from chordmq.cli.setting_facts import meaning

    found = asdict(_checked(lambda: meaning(name), as_json))
    if as_json:
        show_json(found)
        return
    print(found["about"] if found["has_effect"] else f"(no effect) {found['about']}", end="\n\n")
    name = found["name"]
    facts = {"setting": name, "type": found["kind"], "default": found["default"] or "(empty)"}
    facts |= {"flag": f"chordmq serve --set {name}=...", "environment": found["environment"]}
    facts["file"] = ": {".join(_path(name)) + ": ..." + "}" * (len(_path(name)) - 1)
    if found["dynamic"]:
        facts["while it runs"] = f"chordmq config set {name.removeprefix(BROKER_PREFIX)}=..."
    show_facts(facts)


def _path(name: str) -> list[str]:
    """Return the keys below each other that lead to a setting in a file."""
    if name.startswith(BROKER_PREFIX):
        return ["broker", name.removeprefix(BROKER_PREFIX)]
    return name.split(".")


@app.command()
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file with the settings.")],
    assignments: Assignments = None,
    as_json: Json = False,
) -> None:
    """Check a file as a node would at its start, with the environment; say what is wrong.

    \b
      chordmq config validate node.yaml
    """
    from chordmq.cli.setting_facts import effective

    facts = _checked(lambda: list(effective(file, os.environ, assignments or [])), as_json)
    given = sum(fact.source == "file" for fact in facts)
    if as_json:
        show_json({"file": str(file), "valid": True, "settings": given})
    else:
        print(f"{file}: {given} settings, all of them valid")


@app.command("get")
def get_settings(
    names: Names = None,
    node: Annotated[
        int | None, typer.Option("--node", help="Number of the node; else the controller.")
    ] = None,
    changed: Changed = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Show the settings by Kafka's names that a running node has.

    \b
      chordmq config get
      chordmq config get log.retention.ms num.partitions
      chordmq config get --changed --node 2
    """
    wanted = [name.removeprefix(BROKER_PREFIX) for name in names or []]
    rows = run(_settings(address(bootstrap), node), as_json=as_json)
    missing = sorted(set(wanted) - {row["name"] for row in rows})
    if missing:
        fail(f"the node has no setting {', '.join(missing)}", EXIT_USAGE, as_json=as_json)
    rows = [row for row in rows if not wanted or row["name"] in wanted]
    rows = [row for row in rows if not changed or row["source"] != "default"]
    if as_json:
        show_json(rows)
        return
    show_table(["SETTING", "VALUE", "FROM", "+READ ONLY"], [tuple(row.values()) for row in rows])


async def _settings(bootstrap: str, node: int | None) -> list[dict[str, Any]]:
    from chordmq.client.admin import Admin

    async with Admin(bootstrap, connection()) as admin:
        return [
            {key: getattr(row, key) for key in ("name", "value", "source", "read_only")}
            for row in await admin.node_settings(node)
        ]


@app.command("set")
def set_settings(
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What to set.")
    ] = None,
    resets: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="NAME", help="Back to the default; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Change settings of all nodes while they run; they survive restarts.

    `chordmq config explain NAME` tells which can be changed so; the others need a restart.

    \b
      chordmq config set log.retention.ms=86400000
      chordmq config set --reset log.retention.ms
    """
    changes = {name.removeprefix(BROKER_PREFIX): text for name, text in pairs(values).items()}
    back = [name.removeprefix(BROKER_PREFIX) for name in resets or []]
    if not changes and not back:
        fail("nothing to change; give NAME=VALUE or --reset NAME", EXIT_USAGE, as_json=as_json)

    async def work() -> None:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            await admin.alter_node_settings(changes, back)

    run(work(), as_json=as_json)
    if as_json:
        show_json({"set": changes, "reset": back})
    else:
        say(f"changed {', '.join([*changes, *back])}")


def _checked(work: Callable[[], T], as_json: bool) -> T:
    """Return what the work does, or end the command with the setting that is wrong."""
    from chordmq.errors import InvalidSetting

    try:
        return work()
    except InvalidSetting as error:
        fail(str(error), EXIT_USAGE, as_json=as_json)

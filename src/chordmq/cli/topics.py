"""Creates, lists, describes, changes and deletes topics."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.completion import topic_names
from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, Settings, address, pairs
from chordmq.cli.output import fail, say, show_facts, show_json, show_table
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.client.admin import Admin
    from chordmq.client.cluster import TopicInfo

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Create, list, describe, change and delete topics.

    \b
      chordmq topics create orders --partitions 6 --set retention.ms=86400000
      chordmq topics list
      chordmq topics describe orders
      chordmq topics alter orders --partitions 12
      chordmq topics delete orders
    """,
)

NewNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="One or more topics.")]
Names = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC", help="One or more topics.", autocompletion=topic_names),
]
Name = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)
]


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """List topics with their partitions and records.

    \b
      chordmq topics list
      chordmq topics list -o wide
      chordmq topics list --json | jq -r '.[].name'
    """
    rows = run(_list(address(bootstrap), internal), as_json=as_json)
    if as_json:
        show_json(rows)
        return
    show_table(
        ["TOPIC", "#PARTITIONS", "#REPLICAS", "#RECORDS", "+INTERNAL", "+ID"],
        [
            [row[key] for key in ("name", "partitions", "replicas", "records", "internal", "id")]
            for row in rows
        ],
    )


async def _list(bootstrap: str, internal: bool) -> list[dict[str, Any]]:
    from uuid import UUID

    from chordmq.client.admin import Admin

    async with Admin(bootstrap, connection()) as admin:
        topics = [info for info in await admin.topics() if internal or not info.internal]
        ends = await admin.ends(
            (info.name, part.index) for info in topics for part in info.partitions
        )
        return [
            {
                "name": info.name,
                "partitions": len(info.partitions),
                "replicas": max((len(part.replicas) for part in info.partitions), default=0),
                "records": sum(
                    end - start
                    for part in info.partitions
                    for start, end in [ends[info.name, part.index]]
                ),
                "internal": info.internal,
                "id": str(UUID(bytes=bytes(info.topic_id))),
            }
            for info in topics
        ]


@app.command()
def describe(
    names: Names,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show all settings, not only changed ones.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Show the partitions, offsets and settings of topics.

    \b
      chordmq topics describe orders
      chordmq topics describe orders --settings
    """
    found = run(_describe(address(bootstrap), names), as_json=as_json)
    if as_json:
        show_json(found)
        return
    for topic in found:
        show_facts({"topic": topic["name"], "id": topic["id"]})
        columns = ["#PARTITION", "#LEADER", "+#EPOCH", "REPLICAS", "IN SYNC"]
        columns += ["#START", "#END", "#RECORDS"]
        keys = ["partition", "leader", "leader_epoch", "replicas", "in_sync"]
        keys += ["start", "end", "records"]
        show_table(columns, [[_cell(row[key]) for key in keys] for row in topic["partitions"]])
        shown = [row for row in topic["settings"] if settings or row["source"] == "topic"]
        if shown:
            show_table(
                ["SETTING", "VALUE", "FROM"],
                [(row["name"], row["value"], row["source"]) for row in shown],
            )


def _cell(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value


async def _describe(bootstrap: str, names: list[str]) -> list[dict[str, Any]]:
    from chordmq.client.admin import Admin

    async with Admin(bootstrap, connection()) as admin:
        return [await _describe_one(admin, await admin.topic(name)) for name in names]


async def _describe_one(admin: "Admin", info: "TopicInfo") -> dict[str, Any]:
    from uuid import UUID

    ends = await admin.ends((info.name, part.index) for part in info.partitions)
    return {
        "name": info.name,
        "id": str(UUID(bytes=bytes(info.topic_id))),
        "internal": info.internal,
        "partitions": [
            {
                "partition": part.index,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "in_sync": list(part.in_sync),
                "start": ends[info.name, part.index][0],
                "end": ends[info.name, part.index][1],
                "records": ends[info.name, part.index][1] - ends[info.name, part.index][0],
            }
            for part in info.partitions
        ],
        "settings": [
            {"name": row.name, "value": row.value, "source": row.source, "read_only": row.read_only}
            for row in await admin.settings(info.name)
        ],
    }


@app.command()
def create(
    names: NewNames,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Partitions; -1 is the broker's default.")
    ] = -1,
    replicas: Annotated[
        int, typer.Option("--replicas", "-r", help="Copies; -1 is the broker's default.")
    ] = -1,
    settings: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Let a topic be that is there already.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Create topics.

    \b
      chordmq topics create orders
      chordmq topics create orders payments --partitions 6
      chordmq topics create users --set cleanup.policy=compact
      chordmq topics create metrics --set flush=os --set retention.ms=3600000
    """
    chosen = pairs(settings)

    async def work() -> list[dict[str, Any]]:
        from chordmq.client.admin import Admin
        from chordmq.client.codes import Code
        from chordmq.client.errors import BrokerRefused

        done = []
        async with Admin(address(bootstrap), connection()) as admin:
            for name in names:
                try:
                    await admin.create_topic(name, partitions, replicas, chosen)
                except BrokerRefused as error:
                    if not if_not_exists or error.code != Code.TOPIC_ALREADY_EXISTS:
                        raise
                    done.append({"name": name, "created": False})
                else:
                    done.append({"name": name, "created": True})
        return done

    done = run(work(), as_json=as_json)
    if as_json:
        show_json(done)
        return
    for row in done:
        print(f"{'created' if row['created'] else 'is there already:'} {row['name']}")


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="New total number of partitions.")
    ] = None,
    settings: Settings = None,
    resets: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="NAME", help="Setting to give back to its default."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Change a topic's settings, or add partitions to it.

    \b
      chordmq topics alter orders --set retention.ms=604800000
      chordmq topics alter orders --reset retention.ms
      chordmq topics alter orders --partitions 12
    """
    changes = pairs(settings)
    if partitions is None and not changes and not resets:
        fail("nothing to change; give --set, --reset or --partitions", EXIT_USAGE, as_json=as_json)

    async def work() -> dict[str, Any]:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            if changes or resets:
                await admin.alter_settings(name, changes, resets or [])
            if partitions is not None:
                await admin.add_partitions(name, partitions)
            return await _describe_one(admin, await admin.topic(name))

    described = run(work(), as_json=as_json)
    if as_json:
        show_json(described)
        return
    print(f"changed {name}")


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Delete topics with all their records.

    \b
      chordmq topics delete orders
      chordmq topics delete orders payments --yes
    """
    if not yes:
        say(f"This deletes all records of {', '.join(names)}.")
        typer.confirm("Go on?", abort=True, err=True)

    async def work() -> None:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            for name in names:
                await admin.delete_topic(name)

    run(work(), as_json=as_json)
    if as_json:
        show_json([{"name": name, "deleted": True} for name in names])
        return
    for name in names:
        print(f"deleted {name}")

"""Lists and describes groups, shows how far they are behind, and moves their offsets."""

from typing import Annotated, Any

import typer

from chordmq.cli.completion import group_names, topic_names
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import say, show_facts, show_json, show_table
from chordmq.cli.places import PLACES, read_starts
from chordmq.cli.running import run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List and describe consumer groups, see their lag, move their offsets.

    \b
      chordmq groups list
      chordmq groups lag billing
      chordmq groups reset billing --topic orders --to 2h
      chordmq groups reset billing --topic orders --to 2h --execute
    """,
)

Name = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=group_names)
]


@app.command("list")
def list_groups(bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """List groups and their states.

    \b
      chordmq groups list
    """

    async def work() -> list[dict[str, Any]]:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            return [
                {
                    "group": row.group,
                    "state": row.state,
                    "kind": row.kind,
                    "protocol_type": row.protocol_type,
                }
                for row in await admin.groups()
            ]

    rows = run(work(), as_json=as_json)
    if as_json:
        show_json(rows)
        return
    show_table(["GROUP", "STATE", "KIND", "+PROTOCOL"], [tuple(row.values()) for row in rows])


@app.command()
def describe(name: Name, bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """Show a group's state and members.

    \b
      chordmq groups describe billing
    """

    async def work() -> dict[str, Any]:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            group = await admin.describe_group(name)
            return {
                "group": group.group,
                "state": group.state,
                "assignor": group.assignor,
                "coordinator": group.coordinator,
                "members": [
                    {
                        "member_id": member.member_id,
                        "instance_id": member.instance_id,
                        "client_id": member.client_id,
                        "host": member.host,
                        "partitions": [
                            {"topic": topic, "partition": index}
                            for topic, index in member.partitions
                        ],
                    }
                    for member in group.members
                ],
            }

    found = run(work(), as_json=as_json)
    if as_json:
        show_json(found)
        return
    show_facts({key: found[key] for key in ("group", "state", "assignor", "coordinator")})
    show_table(
        ["MEMBER", "+INSTANCE", "CLIENT", "HOST", "PARTITIONS"],
        [
            (
                member["member_id"],
                member["instance_id"],
                member["client_id"],
                member["host"],
                " ".join(f"{row['topic']}:{row['partition']}" for row in member["partitions"]),
            )
            for member in found["members"]
        ],
    )


@app.command()
def lag(name: Name, bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """Show how many records a group has still to read, by partition.

    \b
      chordmq groups lag billing
      chordmq groups lag billing --json | jq .total_lag
    """

    async def work() -> dict[str, Any]:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            rows = await admin.lag(name)
            return {
                "group": name,
                "total_lag": sum(row.lag for row in rows),
                "partitions": [
                    {
                        "topic": row.topic,
                        "partition": row.partition,
                        "committed": row.committed,
                        "start": row.start,
                        "end": row.end,
                        "lag": row.lag,
                        "client_id": row.member.client_id if row.member else None,
                        "member_id": row.member.member_id if row.member else None,
                    }
                    for row in rows
                ],
            }

    found = run(work(), as_json=as_json)
    if as_json:
        show_json(found)
        return
    keys = ["topic", "partition", "committed", "end", "lag", "client_id"]
    show_table(
        ["TOPIC", "#PARTITION", "#COMMITTED", "#END", "#LAG", "CLIENT"],
        [[row[key] for key in keys] for row in found["partitions"]],
    )
    print(f"total lag {found['total_lag']:,}")


@app.command()
def reset(
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help=f"Where to go: {PLACES}.")],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Topic; all committed ones if none.",
            autocompletion=topic_names,
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it, do not only show it.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Move a group's offsets. Shows what would change; --execute does it.

    The group must have no running consumers.

    \b
      chordmq groups reset billing --to earliest
      chordmq groups reset billing --topic orders --to 2026-11-15T08:00
      chordmq groups reset billing --topic orders --to -100 --execute
    """
    rows = run(_reset(address(bootstrap), name, topics, to, execute), as_json=as_json)
    if as_json:
        show_json({"group": name, "executed": execute, "partitions": rows})
        return
    show_table(
        ["TOPIC", "#PARTITION", "#FROM", "#TO"],
        [(row["topic"], row["partition"], row["from"], row["to"]) for row in rows],
    )
    say("done" if execute else "Nothing was changed; add --execute to do it.")


async def _reset(
    bootstrap: str, group: str, topics: list[str] | None, to: str, execute: bool
) -> list[dict[str, Any]]:
    from chordmq.client.admin import Admin
    from chordmq.client.offsets import ends_of, offsets_for

    async with Admin(bootstrap, connection()) as admin:
        committed = await admin.committed(group)
        pairs = sorted(committed)
        if topics:
            infos = [await admin.topic(topic) for topic in topics]
            pairs = [(info.name, part.index) for info in infos for part in info.partitions]
        if not pairs:
            raise ValueError(f"group {group} has committed nothing; name a topic with --topic")
        starts = await read_starts(to, admin.cluster, pairs)
        times = {pair: start.timestamp_ms for pair, start in starts.items() if start.offset is None}
        found = await offsets_for(admin.cluster, times) if times else {}
        ends = await ends_of(admin.cluster, pairs)
        targets = {}
        for pair, start in starts.items():
            first, end = ends[pair]
            wanted = found[pair] if start.offset is None else start.offset
            targets[pair] = min(max(wanted, first), end)
        if execute:
            await admin.set_offsets(group, targets)
        return [
            {"topic": pair[0], "partition": pair[1], "from": committed.get(pair), "to": offset}
            for pair, offset in targets.items()
        ]


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Delete a group and its committed offsets.

    \b
      chordmq groups delete billing --yes
    """
    if not yes:
        say(f"This deletes the committed offsets of {name}.")
        typer.confirm("Go on?", abort=True, err=True)

    async def work() -> None:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            await admin.delete_group(name)

    run(work(), as_json=as_json)
    if as_json:
        show_json({"group": name, "deleted": True})
        return
    print(f"deleted {name}")

"""Mirrors topics between two clusters, and moves consumer groups from one to the other."""

from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_CANNOT_CONNECT, EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.identity import security
from chordmq.cli.options import Json
from chordmq.cli.output import fail, say, show_json, show_table

if TYPE_CHECKING:
    from chordmq.topology.mirror import Cluster, Translated, Way

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Mirror topics between two clusters, and move consumer groups.

    \b
      chordmq mirror run --from http://a:8080 --to http://b:8080 --both --groups '.*'
      chordmq mirror move billing --from http://a:8080 --to http://b:8080
    """,
)

REPORT_S = 10.0
SourceUrl = Annotated[
    str,
    typer.Option(
        "--from", metavar="URL", help="HTTP address of a node, several with commas; or kafka://..."
    ),
]
TargetUrl = Annotated[str, typer.Option("--to", metavar="URL", help="The other cluster's.")]
SourceToken = Annotated[
    str, typer.Option(envvar="CHORDMQ_FROM_TOKEN", help="What the first cluster asks for.")
]
TargetToken = Annotated[
    str, typer.Option(envvar="CHORDMQ_TO_TOKEN", help="What the other cluster asks for.")
]


@app.command()
def run(
    source: SourceUrl,
    target: TargetUrl,
    topics: Annotated[str, typer.Option(help="Regular expressions with commas.")] = ".*",
    groups: Annotated[str, typer.Option(help="Groups whose offsets are translated.")] = "",
    both: Annotated[bool, typer.Option("--both", help="Mirror the other way, too.")] = False,
    from_token: SourceToken = "",
    to_token: TargetToken = "",
    bytes_per_s: Annotated[int, typer.Option(min=0, help="A limit each way.")] = 0,
    schedule: Annotated[str, typer.Option(help="Other limits: 08:00-20:00=off (UTC).")] = "",
) -> None:
    """Mirror until interrupted: records, settings, and offsets of groups without consumers there.

    \b
      chordmq mirror run --from http://a:8080 --to http://b:8080 --topics 'orders\\..*' --both
    """
    import re

    import uvloop

    from chordmq.clock import SystemClock
    from chordmq.topology.mirror import MirrorSettings, Way

    first, second = _clusters(source, target, from_token, to_token)
    settings = MirrorSettings(
        topics=topics, groups=groups, bytes_per_s=bytes_per_s, schedule=schedule
    )
    if target.startswith("kafka://") or (both and source.startswith("kafka://")):
        fail("a Kafka can be copied from, but not to", EXIT_USAGE)
    pairs = [(first, second), (second, first)] if both else [(first, second)]
    try:
        ways = [Way(*pair, settings, SystemClock()) for pair in pairs]
    except (re.error, ValueError) as error:
        fail(str(error), EXIT_USAGE)
    uvloop.run(_run(ways))


@app.command()
def move(
    group: Annotated[str, typer.Argument(help="A group whose consumers are stopped.")],
    source: SourceUrl,
    target: TargetUrl,
    from_token: SourceToken = "",
    to_token: TargetToken = "",
    as_json: Json = False,
) -> None:
    """Have a group go on in the other cluster, exactly where it stopped; nothing is lost.

    \b
      chordmq mirror move billing --from http://a:8080 --to http://b:8080
    """
    import uvloop

    from chordmq.topology.calling import Refused
    from chordmq.topology.http import Unreachable
    from chordmq.topology.mirror import NotMovable

    first, second = _clusters(source, target, from_token, to_token)
    try:
        places = uvloop.run(_move(group, first, second))
    except (NotMovable, Refused) as error:
        fail(str(error), EXIT_REFUSED, as_json=as_json)
    except Unreachable as error:
        fail(str(error), EXIT_CANNOT_CONNECT, as_json=as_json)
    rows = [(*one.place, one.here, one.there) for one in places]
    if as_json:
        show_json(
            [dict(zip(("topic", "partition", "from", "to"), row, strict=True)) for row in rows]
        )
        return
    show_table(["TOPIC", "PARTITION", "FROM", "TO"], [tuple(map(str, row)) for row in rows])


async def _move(group: str, source: "Cluster", target: "Cluster") -> "list[Translated]":
    from contextlib import closing

    from chordmq.topology import mirror

    upstream = source.upstreams(wait_ms=0).open(source.source)
    with closing(upstream), closing(target.caller(target.security.context())) as caller:
        return await mirror.move(upstream, caller, group)


async def _run(ways: "list[Way]") -> None:
    import asyncio

    async with asyncio.TaskGroup() as tasks:
        for way in ways:
            tasks.create_task(way.run())
        while True:
            await asyncio.sleep(REPORT_S)
            for way in ways:
                about = f"{way.health.name}, {way.records} copied, {way.lag} behind"
                say(f"{way.source.url} -> {way.target.url}: {about} {way.error}".rstrip())


def _clusters(
    source: str, target: str, from_token: str, to_token: str
) -> "tuple[Cluster, Cluster]":
    from dataclasses import replace

    from chordmq.topology.mirror import Cluster

    who = security()
    return (
        Cluster(url=source, security=replace(who, token=from_token or who.token)),
        Cluster(url=target, security=replace(who, token=to_token or who.token)),
    )

"""Lists, adds, removes and tries the rules by which names with levels find their topics."""

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import say, show_json, show_table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Say which topics messages with names such as a/b/c go to.

    \b
      chordmq routes list
      chordmq routes add 'plant/+/+/telemetry' telemetry --key '{2}-{3}'
      chordmq routes test plant/7/press/telemetry
      chordmq routes remove 'plant/+/+/telemetry'

    Without a rule, x/y/z goes to the topic x.y with the key z.
    """,
)

Filter = Annotated[str, typer.Argument(metavar="FILTER", help="With + for one level, # for all.")]
PATH = "/v1/routes"


@app.command("list")
def list_routes(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the rules in the order in which they are asked.

    \b
      chordmq routes list
    """
    routes = call(url, "GET", PATH, as_json=as_json)["routes"]
    if as_json:
        show_json(routes)
    elif not routes:
        say("there is no rule: x/y/z goes to the topic x.y with the key z")
    else:
        show_table(["FILTER", "TOPIC", "KEY", "RANK", "FROM"], [_row(one) for one in routes])


@app.command()
def add(
    wanted: Filter,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The log topic.")],
    key: Annotated[
        str | None, typer.Option(help="The key of the messages; {3} is the third level.")
    ] = None,
    rank: Annotated[int, typer.Option(help="Rules of a lower rank are asked first.")] = 0,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Add a rule, or replace the one with the same filter.

    \b
      chordmq routes add 'plant/+/+/telemetry' telemetry --key '{2}-{3}'
    """
    body = {"filter": wanted, "topic": topic, "key": key, "rank": rank}
    made = call(url, "POST", PATH, body, as_json=as_json)
    if as_json:
        show_json(made)
    else:
        say(f"{wanted} goes to {topic}")


@app.command()
def remove(wanted: Filter, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Remove a rule; what lies in its topic stays there.

    \b
      chordmq routes remove 'plant/+/+/telemetry'
    """
    call(url, "DELETE", f"{PATH}?{urlencode({'filter': wanted})}", as_json=as_json)
    if as_json:
        show_json({"filter": wanted, "removed": True})
    else:
        say(f"removed {wanted}")


@app.command("test")
def try_name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name such as a/b/c.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Say where messages of a name go, and by which rule.

    \b
      chordmq routes test plant/7/press/telemetry
    """
    found = call(url, "GET", f"{PATH}/test?{urlencode({'name': name})}", as_json=as_json)
    if as_json:
        show_json(found)
        return
    rule = found["filter"] or "(no rule)"
    where = found["topic"] if found["partition"] is None else _place(found)
    show_table(["NAME", "TOPIC", "KEY", "BY"], [(name, where, found["key"] or "-", rule)])


def _place(found: dict[str, Any]) -> str:
    return f"{found['topic']}-{found['partition']}"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    rank = "-" if one["rank"] is None else str(one["rank"])
    return (one["filter"], one["topic"], one["key"] or "-", rank, one["source"])

"""Shows which remote consumers are connected to a node, what they read and how far they are."""

from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import say, show_json, show_table

COLUMNS = {
    "name": "NAME",
    "protocol": "PROTOCOL",
    "host": "HOST",
    "topic": "TOPIC",
    "group": "GROUP",
    "index": "INDEX",
    "unacknowledged": "HELD",
    "delivered": "DELIVERED",
    "lag": "LAG",
}


def consumers(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show the remote consumers that are connected.

    \b
      chordmq consumers
      chordmq consumers --json
    """
    found = call(url, "GET", "/v1/consumers", as_json=as_json)["consumers"]
    if as_json:
        show_json(found)
        return
    if not found:
        say("nobody consumes at present")
        return
    show_table([*COLUMNS.values()], [tuple(str(one[name]) for name in COLUMNS) for one in found])

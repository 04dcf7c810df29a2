"""Shows the queues of AMQP clients: what waits in them, what is held, and how many consume."""

from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import say, show_json, show_table

COLUMNS = {
    "vhost": "VHOST",
    "name": "NAME",
    "durable": "DURABLE",
    "ready": "READY",
    "unacknowledged": "HELD",
    "consumers": "CONSUMERS",
    "delivered": "DELIVERED",
}


def queues(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show the queues of AMQP clients.

    \b
      chordmq queues
      chordmq queues --json
    """
    found = call(url, "GET", "/v1/queues", as_json=as_json)["queues"]
    if as_json:
        show_json(found)
        return
    if not found:
        say("no queue is declared")
        return
    show_table([*COLUMNS.values()], [tuple(str(one[name]) for name in COLUMNS) for one in found])

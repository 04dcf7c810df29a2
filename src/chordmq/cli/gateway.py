"""Runs the IoT layer and the WebSocket gateway on a broker that is already there."""

from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.options import DEFAULT_BOOTSTRAP
from chordmq.cli.output import fail, say

if TYPE_CHECKING:
    from chordmq.drivers.bridge import BridgeSettings

Filters = list[str] | None
EVERYTHING = ["iotsphere/#"]


def gateway(
    driver: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="CHORDMQ_GATEWAY_DRIVER",
            help="The broker that is there: rabbitmq://, redis:// or kafka://.",
        ),
    ],
    node: Annotated[
        str, typer.Option(metavar="URL", help="The node whose gateways clients use.")
    ] = f"chordmq://{DEFAULT_BOOTSTRAP}",
    inbound: Annotated[
        Filters, typer.Option("--in", metavar="FILTER", help="What comes to the node.")
    ] = None,
    outbound: Annotated[
        Filters, typer.Option("--out", metavar="FILTER", help="What goes to the broker.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="What the gateway's place is called on both sides.")
    ] = "chordmq-gateway",
) -> None:
    """Give an existing RabbitMQ, Redis or Kafka the node's MQTT, WebSocket, shadows and commands.

    \b
      chordmq up
      chordmq gateway --driver rabbitmq://guest:guest@localhost:5672/
      chordmq gateway --driver kafka://kafka:9092 --in 'orders/#' --out 'iotsphere/#'

    Messages under the names of --in and --out (both: iotsphere/#) are carried between the two,
    in their order and with their ids. Either side may be away: the gateway goes on when it is back.
    """
    import uvloop

    from chordmq import logs
    from chordmq.drivers.bridge import BridgeSettings
    from chordmq.drivers.errors import DriverError, UnknownDriver

    logs.configure(logs.LogsSettings(level="warning"))
    settings = BridgeSettings(
        name=name,
        inbound=tuple(EVERYTHING if inbound is None else inbound),
        outbound=tuple(EVERYTHING if outbound is None else outbound),
    )
    try:
        uvloop.run(_carry(node, driver, settings))
    except UnknownDriver as error:
        fail(str(error), EXIT_USAGE)
    except ExceptionGroup as errors:
        refused, _ = errors.split(DriverError)
        if refused is None:
            raise
        fail(str(refused.exceptions[0]), EXIT_REFUSED)
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED)


async def _carry(node: str, driver: str, settings: "BridgeSettings") -> None:
    import asyncio
    import random

    from chordmq.clock import SystemClock
    from chordmq.drivers.addresses import open_driver
    from chordmq.drivers.bridge import Bridge

    async with open_driver(node) as here, open_driver(driver) as there:
        chance = random.Random()  # noqa: S311 (spreads attempts)
        bridge = Bridge(here, there, settings, SystemClock(), chance)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bridge.run())
            await bridge.opened()
            say(f"carrying between {_shown(node)} and {_shown(driver)}; stop with Ctrl-C")


def _shown(url: str) -> str:
    """Return an address without its password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"

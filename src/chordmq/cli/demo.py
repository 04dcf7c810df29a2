"""Drives a fleet of simulated devices, so that everything there is to see moves."""

from dataclasses import asdict
from typing import Annotated

import typer

from chordmq.cli.exits import EXIT_CANNOT_CONNECT
from chordmq.cli.identity import security
from chordmq.cli.options import Json
from chordmq.cli.output import fail, show_json


def demo(
    devices: Annotated[int, typer.Option("--devices", "-d", min=1, help="How many.")] = 200,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="How long; 0 is until Ctrl-C.")
    ] = 0,
    where: Annotated[
        str, typer.Option("--address", "-a", metavar="HOST:PORT", help="Where MQTT is served.")
    ] = "127.0.0.1:1883",
    seed: Annotated[int, typer.Option(help="The same fleet again has the same seed.")] = 1,
    as_json: Json = False,
) -> None:
    """Drive a fleet of simulated devices, so that everything moves.

    Cold rooms, greenhouses, pumps and trackers measure every two seconds over MQTT. Now and then a
    sensor goes wrong, a device falls silent, a message is garbage: the data pipeline finds it, and
    its alerts are printed here and shown in the web console. Devices answer commands (identify,
    calibrate, restart) and obey the field `interval_s` of their shadows.

    \b
      chordmq demo
      chordmq demo --devices 1000 --seconds 60
      chordmq devices command send pump-002 identify --wait 5
      chordmq devices shadow set cold-room-000 '{"interval_s": 0.5}'
    """
    import uvloop

    from chordmq.cli.demo_fleet import DemoFleet, drive
    from chordmq.cli.simulated_devices import SimulatedDevice

    host, _, port = where.rpartition(":")
    if not port.isdecimal():
        raise typer.BadParameter(f"{where!r} is not of the form HOST:PORT")
    who = security()
    fleet = DemoFleet(
        host=host or "127.0.0.1",
        port=int(port),
        devices=[SimulatedDevice(number, seed) for number in range(devices)],
        login=(who.user, who.password) if who.user else None,
        is_quiet=as_json,
    )
    try:
        uvloop.run(drive(fleet, seconds))
    except KeyboardInterrupt:
        pass
    except (OSError, TimeoutError) as error:
        fail(
            f"{where} does not serve MQTT: {error}. Start a node with `chordmq up`, "
            "or name its address with --address.",
            EXIT_CANNOT_CONNECT,
            as_json=as_json,
            name="CANNOT_CONNECT",
        )
    if as_json:
        show_json(asdict(fleet.told))
    else:
        print(fleet.told)

"""Shows devices, changes their shadows and sends them commands."""

import json
import sys
import time
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from chordmq.cli.exits import EXIT_REFUSED
from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import fail, say, show_json, show_table

WAIT_MS_MAX = 20_000
"""Of one request; the command asks again until its own time is over."""
ENDED = {"succeeded": 0, "failed": 1, "expired": 1, "cancelled": 1}

Device = Annotated[str, typer.Argument(metavar="DEVICE", help="Id of the device.")]

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Show devices, their shadows and commands."
)
shadow = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show or change a shadow.")
command = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Send and watch commands.")
app.add_typer(shadow, name="shadow")
app.add_typer(command, name="command")


@app.command("list")
def list_devices(
    connected: Annotated[
        bool | None, typer.Option("--connected/--away", help="Only those that are, or are not.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List devices.

    \b
      chordmq devices list --connected
    """
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        query = {"after": after}
        if connected is not None:
            query["connected"] = str(connected).lower()
        page = call(url, "GET", f"/v1/devices?{urlencode(query)}", as_json=as_json)
        found += page["devices"]
        after = page["next"]
    if as_json:
        show_json(found)
        return
    if not found:
        say("no device is known")
        return
    rows = [
        (one["id"], one["model"], "yes" if one["is_connected"] else "no", one["status"])
        for one in found
    ]
    show_table(["DEVICE", "MODEL", "CONNECTED", "STATUS"], rows)


@app.command("show")
def show_device(device: Device, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show a device and its commands.

    \b
      chordmq devices show d7
    """
    path = f"/v1/devices/{quote(device, safe='')}"
    found = call(url, "GET", path, as_json=as_json)
    found["commands"] = call(url, "GET", f"{path}/commands", as_json=as_json)["commands"]
    if as_json:
        show_json(found)
        return
    for name in ("id", "model", "tags", "is_connected", "status"):
        print(f"{name}: {found[name]}")
    for one in found["commands"]:
        print(f"command {one['id']}: {one['name']} {one['state']}")


@shadow.command("get")
def get_shadow(device: Device, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Print the shadow as JSON.

    \b
      chordmq devices shadow get d7
    """
    show_json(call(url, "GET", _shadow(device), as_json=as_json))


@shadow.command("set")
def set_shadow(
    device: Device,
    desired: Annotated[
        str, typer.Argument(metavar="JSON", help="Fields to change; null deletes one.")
    ],
    version: Annotated[
        int | None, typer.Option(help="The version that the shadow must have.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Change what is wanted of a device.

    \b
      chordmq devices shadow set d7 '{"light": 40}' --version 3
    """
    body: dict[str, Any] = {"state": {"desired": _read(desired)}}
    if version is not None:
        body["version"] = version
    show_json(call(url, "PATCH", _shadow(device), body, as_json=as_json))


@command.command("send")
def send_command(
    device: Device,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to do.")],
    parameters: Annotated[str, typer.Argument(metavar="JSON", help="How.")] = "null",
    *,
    command_id: Annotated[
        str | None, typer.Option("--id", help="The same id again is the same command.")
    ] = None,
    wait_s: Annotated[float, typer.Option("--wait", help="Seconds to wait for its end.")] = 0,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", help="Seconds that the device has.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Send a command; with --wait, end with 0 only if it has succeeded.

    \b
      chordmq devices command send d7 dim '{"to": 40}' --wait 10
    """
    body: dict[str, Any] = {"name": name, "parameters": _read(parameters)}
    if command_id is not None:
        body["id"] = command_id
    if timeout_s is not None:
        body["timeout_ms"] = round(timeout_s * 1000)
    path = f"/v1/devices/{quote(device, safe='')}/commands"
    found = call(url, "POST", path, body, as_json=as_json)
    deadline_s = time.monotonic() + wait_s
    while found["state"] not in ENDED and (left_s := deadline_s - time.monotonic()) > 0:
        wait_ms = min(round(left_s * 1000), WAIT_MS_MAX)
        place = f"{path}/{quote(found['id'], safe='')}?wait_ms={wait_ms}"
        found = call(url, "GET", place, as_json=as_json)
    _show(found, as_json=as_json)
    if wait_s and found["state"] != "succeeded":
        sys.exit(ENDED.get(found["state"], 1))


@command.command("cancel")
def cancel_command(
    device: Device,
    command_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the command.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Cancel a command that has not ended.

    \b
      chordmq devices command cancel d7 01J9ZC
    """
    path = f"/v1/devices/{quote(device, safe='')}/commands/{quote(command_id, safe='')}"
    _show(call(url, "DELETE", path, as_json=as_json), as_json=as_json)


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    result = "" if found["result"] is None else f": {json.dumps(found['result'])}"
    print(f"{found['id']} {found['state']}{result}")


def _shadow(device: str) -> str:
    return f"/v1/devices/{quote(device, safe='')}/shadow"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"{text!r} is not JSON: {error}", EXIT_REFUSED)

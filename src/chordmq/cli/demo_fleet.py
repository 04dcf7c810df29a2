"""The connections of the simulated devices, and what comes back over them."""

import asyncio
import json
from dataclasses import field
from typing import Any

from chordmq.cli.mqtt_line import PUBLISH, Line, Login, text
from chordmq.cli.output import say, thousands
from chordmq.cli.simulated_devices import SimulatedDevice
from chordmq.clock import SystemClock
from chordmq.dataclass import dataclass

ROOT = "iotsphere/devices"
ALERTS = "iotsphere/system/alerts"
ANSWER_S = 20.0
BACK_OFF_S = 2.0
CONNECTS_AT_ONCE = 50
TELL_S = 5.0


@dataclass(slots=True)
class Told:
    """What has happened so far."""

    devices: int = 0
    sent: int = 0
    vanished: int = 0
    commands: int = 0
    alerts: int = 0

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.devices} devices connected, {thousands(self.sent)} readings sent, "
            f"{self.vanished} devices went silent, {self.commands} commands answered, "
            f"{self.alerts} alerts"
        )


@dataclass(slots=True, kw_only=True)
class DemoFleet:
    """A fleet, and what came of it."""

    host: str
    port: int
    devices: list[SimulatedDevice]
    login: Login | None
    told: Told = field(default_factory=Told)
    is_quiet: bool = False


async def drive(fleet: DemoFleet, seconds: float) -> None:
    """Run a fleet for so long, or until cancelled."""
    listener = await _listen(fleet)
    running: list[asyncio.Task[None]] = []
    try:
        async with asyncio.timeout(seconds or None):
            async with asyncio.TaskGroup() as tasks:
                for first in range(0, len(fleet.devices), CONNECTS_AT_ONCE):
                    some = fleet.devices[first : first + CONNECTS_AT_ONCE]
                    running += [tasks.create_task(_live(fleet, one)) for one in some]
                    await asyncio.sleep(0.1)  # a fleet does not wake in one moment
                while True:
                    await asyncio.sleep(TELL_S)
                    if not fleet.is_quiet:
                        say(str(fleet.told))
    except TimeoutError:
        if not running:
            raise
    finally:
        listener.close()


async def _listen(fleet: DemoFleet) -> Line:
    """Print the alerts of the pipeline as they come."""

    def taken(kind: int, body: bytes) -> None:
        if kind != PUBLISH:
            return
        fleet.told.alerts += 1
        if not fleet.is_quiet:
            say(f"  alert  {_alert(_payload(body)[1])}")

    line = await _open(fleet, "chordmq-demo", taken)
    line.subscribe(ALERTS)
    await line.ready(ANSWER_S)
    return line


async def _open(fleet: DemoFleet, name: str, taken: Any) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(lambda: Line(taken), fleet.host, fleet.port)
    line.connect(name, fleet.login, (f"{ROOT}/{name}/status", b"offline"))
    await line.ready(ANSWER_S)
    return line


async def _live(fleet: DemoFleet, device: SimulatedDevice) -> None:
    """Be one device: connect, measure, fall silent, come back."""
    while True:
        try:
            await _measure(fleet, device)
        except (OSError, TimeoutError):
            await asyncio.sleep(BACK_OFF_S * (1 + device.chance.random()))


async def _measure(fleet: DemoFleet, device: SimulatedDevice) -> None:
    """Publish readings until the device vanishes or the connection ends."""
    lines: list[Line] = []

    def taken(kind: int, body: bytes) -> None:
        if kind == PUBLISH:
            _listen_to(fleet.told, device, lines[0], body)

    line = await _open(fleet, device.id, taken)
    lines.append(line)
    told = fleet.told
    told.devices += 1
    base = f"{ROOT}/{device.id}"
    try:
        line.subscribe(f"{base}/commands/+/request", f"{base}/shadow/update/delta")
        await line.ready(ANSWER_S)
        line.publish(text(f"{base}/status"), b"online")
        line.publish(text(f"{base}/register"), device.model)
        line.publish(text(f"{base}/shadow/update"), device.reported())
        await asyncio.sleep(device.chance.uniform(0, device.interval_s))
        clock, silent_s = SystemClock(), 0.0
        while line.is_open and not silent_s:
            for metric, payload in device.readings(clock.now_ms() / 1000):
                line.publish(text(f"{base}/telemetry/{metric}"), payload)
                told.sent += 1
            silent_s = device.vanishes_s()
            await asyncio.sleep(device.interval_s)
    finally:
        told.devices -= 1
        line.vanish()
    if silent_s:
        told.vanished += 1
        await asyncio.sleep(silent_s)


def _listen_to(told: Told, device: SimulatedDevice, line: Line, body: bytes) -> None:
    """Answer a command, or do what the shadow wants."""
    topic, payload = _payload(body)
    if topic.endswith("/shadow/update/delta"):
        if isinstance(payload, dict) and device.obey(payload.get("state")):
            line.publish(text(f"{ROOT}/{device.id}/shadow/update"), device.reported())
    elif topic.endswith("/request"):
        told.commands += 1
        name = topic.split("/")[-2]
        line.publish(
            text(f"{topic.removesuffix('/request')}/response"), device.answer(name, payload)
        )


def _payload(body: bytes) -> tuple[str, Any]:
    """Return a message's name and what is inside its envelope, or None if that is not JSON."""
    end = 2 + int.from_bytes(body[:2], "big")
    topic = body[2:end].decode(errors="replace")
    try:
        content = json.loads(body[end:])
    except ValueError:
        return topic, None
    if isinstance(content, dict) and "metadata" in content and "payload" in content:
        content = content["payload"]
    return topic, content


def _alert(content: Any) -> str:
    if not isinstance(content, dict):
        return str(content)
    return "  ".join(f"{name} {value}" for name, value in content.items() if value is not None)

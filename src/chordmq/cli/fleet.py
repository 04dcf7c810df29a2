"""Simulates a fleet of MQTT devices: many connections, each with a message from time to time."""

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import Any

from chordmq.cli.bench import percentiles
from chordmq.cli.mqtt_line import PUBACK, PUBLISH, Line, text
from chordmq.cli.output import progress, thousands
from chordmq.clock import Clock, SystemClock
from chordmq.dataclass import dataclass

CONNECTS_AT_ONCE = 200
LATE_S = 20.0
"""How long to wait for the last messages."""
LOOK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Which devices there are, and what they send."""

    host: str
    port: int
    devices: int
    interval_s: float
    seconds: float
    qos: int
    size: int
    prefix: str


@dataclass(slots=True)
class Tally:
    """What was sent, answered and received, and how long answers took."""

    sent: int = 0
    answered: int = 0
    received: int = 0
    latencies: list[float] = field(default_factory=list)


def simulate(fleet: Fleet) -> dict[str, Any]:
    """Run the fleet, and return what came of it."""
    import uvloop

    return uvloop.run(_simulate(fleet, SystemClock()))


async def _simulate(fleet: Fleet, clock: Clock) -> dict[str, Any]:
    tally = Tally()
    backend = await _backend(fleet, tally)
    began_s = clock.monotonic_s()
    lines = await _connect_all(fleet, tally, clock)
    connected_s = clock.monotonic_s() - began_s
    began_s = clock.monotonic_s()
    async with asyncio.TaskGroup() as tasks:
        for number, line in enumerate(lines):
            tasks.create_task(_report(fleet, number, line, (tally, clock)))
    await _settle(tally)
    took_s = clock.monotonic_s() - began_s
    for line in (*lines, backend):
        line.close()
    return {
        "bench": "mqtt",
        "devices": fleet.devices,
        "connected_in_s": round(connected_s, 3),
        "qos": fleet.qos,
        "sent": tally.sent,
        "answered": tally.answered,
        "received": tally.received,
        "messages_per_s": round(tally.received / took_s, 1),
        "ack_latency_ms": percentiles(tally.latencies),
    }


async def _backend(fleet: Fleet, tally: Tally) -> Line:
    def taken(kind: int, body: bytes) -> None:
        tally.received += kind == PUBLISH

    line = await _open(fleet, "fleet-backend", taken)
    line.subscribe(f"{fleet.prefix}/#")
    await line.ready(LATE_S)
    return line


async def _open(fleet: Fleet, name: str, taken: Callable[[int, bytes], None]) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(lambda: Line(taken), fleet.host, fleet.port)
    line.connect(name)
    await line.ready(LATE_S)
    return line


async def _connect_all(fleet: Fleet, tally: Tally, clock: Clock) -> list[Line]:
    lines: list[Line] = []
    with progress("devices") as display:
        task = display.add_task("connect", total=fleet.devices, rate="")
        while len(lines) < fleet.devices:
            count = min(CONNECTS_AT_ONCE, fleet.devices - len(lines))
            numbers = range(len(lines), len(lines) + count)
            lines += await asyncio.gather(*(_device(fleet, n, tally, clock) for n in numbers))
            display.update(task, completed=len(lines), rate=thousands(len(lines)))
    return lines


async def _device(fleet: Fleet, number: int, tally: Tally, clock: Clock) -> Line:
    def taken(kind: int, body: bytes) -> None:
        if kind == PUBACK:
            tally.answered += 1
            tally.latencies.append(clock.monotonic_s() - line.sent_s.pop(body[:2]))

    line = await _open(fleet, f"fleet-{number}", taken)
    return line


async def _report(fleet: Fleet, number: int, line: Line, what: tuple[Tally, Clock]) -> None:
    """Publish one device's readings; the devices are spread over the interval."""
    tally, clock = what
    topic = text(f"{fleet.prefix}/d{number}/telemetry/temperature")
    payload = b"x" * fleet.size
    await asyncio.sleep(fleet.interval_s * number / fleet.devices)
    for index in range(1, max(int(fleet.seconds / fleet.interval_s), 1) + 1):
        due_s = clock.monotonic_s()
        packet_id = (index % 65_535 + 1).to_bytes(2, "big")
        if fleet.qos:
            line.sent_s[packet_id] = due_s
            line.publish(topic, payload, packet_id)
        else:
            line.publish(topic, payload)
        tally.sent += 1
        await asyncio.sleep(fleet.interval_s)


async def _settle(tally: Tally) -> None:
    """Wait until everything has arrived, or nothing comes any more."""
    for _ in range(int(LATE_S / LOOK_S)):
        if tally.received >= tally.sent:
            return
        await asyncio.sleep(LOOK_S)

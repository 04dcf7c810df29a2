"""Simulates a fleet of MQTT devices: many connections, each with a message from time to time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from chordmq.cli.bench import percentiles
from chordmq.cli.output import progress, thousands
from chordmq.clock import Clock, SystemClock

CONNECTS_AT_ONCE = 200
LATE_S = 20.0
"""How long to wait for the last messages."""
LOOK_S = 0.01
CONNACK, PUBLISH, PUBACK, SUBACK = 2, 3, 4, 9


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


class Line(asyncio.Protocol):
    """A connection that cuts what comes into packets; MQTT 3.1.1, as small devices speak it."""

    def __init__(self, taken: Callable[[int, bytes], None]) -> None:
        self._taken = taken
        self._rest = b""
        self._transport: asyncio.Transport
        self.sent_s: dict[bytes, float] = {}
        """When messages that wait for an answer were sent, by their numbers."""
        self.ready = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connect(self, client_id: str) -> None:
        """Ask to be let in."""
        self.send(0x10, b"\0\4MQTT\4\2\0\0" + _text(client_id))

    def send(self, first: int, body: bytes) -> None:
        """Send a packet."""
        size, head = len(body), bytearray((first,))
        while size > 0x7F:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        self._transport.write(bytes((*head, size)) + body)

    def data_received(self, data: bytes) -> None:
        """Hand on each packet."""
        data = self._rest + data
        at = 0
        while (found := _packet(data, at)) is not None:
            start, stop = found
            kind = data[at] >> 4
            if kind in (CONNACK, SUBACK):
                self.ready.set()
            else:
                self._taken(kind, data[start:stop])
            at = stop
        self._rest = data[at:]

    def close(self) -> None:
        """Go."""
        self._transport.close()


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where a packet's body starts and stops; None if it is not all there."""
    size = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        size |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            stop = place + 1 + size
            return (place + 1, stop) if stop <= len(data) else None
    return None


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
    line.ready.clear()
    line.send(0x82, b"\0\1" + _text(f"{fleet.prefix}/#") + b"\0")
    await asyncio.wait_for(line.ready.wait(), LATE_S)
    return line


async def _open(fleet: Fleet, name: str, taken: Callable[[int, bytes], None]) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(lambda: Line(taken), fleet.host, fleet.port)
    line.connect(name)
    await asyncio.wait_for(line.ready.wait(), LATE_S)
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
    topic = _text(f"{fleet.prefix}/d{number}/telemetry/temperature")
    payload = b"x" * fleet.size
    await asyncio.sleep(fleet.interval_s * number / fleet.devices)
    for index in range(1, max(int(fleet.seconds / fleet.interval_s), 1) + 1):
        due_s = clock.monotonic_s()
        packet_id = (index % 65_535 + 1).to_bytes(2, "big")
        if fleet.qos:
            line.sent_s[packet_id] = due_s
            line.send(0x32, topic + packet_id + payload)
        else:
            line.send(0x30, topic + payload)
        tally.sent += 1
        await asyncio.sleep(fleet.interval_s)


async def _settle(tally: Tally) -> None:
    """Wait until everything has arrived, or nothing comes any more."""
    for _ in range(int(LATE_S / LOOK_S)):
        if tally.received >= tally.sent:
            return
        await asyncio.sleep(LOOK_S)

"""E14: telemetry of 100 devices over MQTT to a page in a real Chromium, the whole chain between.

Devices publish with QoS 1 at a steady rate; the node acknowledges when a message is as durable as
its topic asks, looks after the devices, and pushes to the page, which counts with the SDK. All of
it shares the machine: devices, node and browser.
"""

import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.browser import chromium, sdk_site
from benchmarks.mqtt import Client
from benchmarks.peers import FRONTS
from benchmarks.session import Sample, Session

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEVICES = 100
RATE = 10_500
LENGTH_S = 8.0
TICK_S = 0.01
WAIT_S = 60.0
READ_BYTES = 1 << 16
PAYLOAD_SIZE = 100
NAME = "iotsphere/devices"
COMMAND = "python -m benchmarks --case iot_chain"
PAGE = """async ([site, url]) => {
  const { Client } = await import(`${site}/src/index.js`)
  const seen = (window.seen = { count: 0, late: [], first: 0, last: 0, ids: new Set() })
  const client = await new Client(url).connect()
  await client.subscribe("iotsphere/devices/+/telemetry/#", (message) => {
    const now = performance.timeOrigin + performance.now()
    const { sent, number } = message.json
    seen.first ||= now
    seen.last = now
    seen.count += 1
    seen.ids.add(number)
    seen.late.push(now - sent)
  })
}"""
COUNT = "() => window.seen.count"
RESULT = """() => {
  const { count, first, last, late, ids } = window.seen
  late.sort((one, other) => one - other)
  const mean = late.reduce((sum, one) => sum + one, 0) / late.length
  const p99 = late[Math.floor(late.length * 0.99)]
  return { count, distinct: ids.size, took: last - first, mean, p99 }
}"""


def iot_chain(session: Session) -> list[Sample]:
    """Send for some seconds, and wait until the page has seen every message."""
    if not session.ours:
        return []
    numbers = map(int, (Path(session.peer.directory) / "ports").read_text().split())
    ports = dict(zip(FRONTS, numbers, strict=True))
    with _page(f"127.0.0.1:{ports['http']}") as page, session.metered() as meter:
        sender = threading.Thread(target=_send, args=(("127.0.0.1", ports["mqtt"]),))
        sender.start()
        sender.join()
        found = _all_seen(page, round(RATE * LENGTH_S))
    cost = (meter.cpu_s, meter.rss_mb, COMMAND)
    return [
        Sample("iot_chain", found["count"] / found["took"] * 1000, "messages/s", *cost),
        Sample("iot_chain_latency.mean", found["mean"], "ms", *cost),
        Sample("iot_chain_latency.p99", found["p99"], "ms", *cost),
    ]


@contextmanager
def _page(node: str) -> Iterator["Page"]:
    """Open a page of the node's, with the SDK from a site beside it, and have it subscribe."""
    with sdk_site() as site, chromium() as browser:
        page = browser.new_page()
        page.goto(f"http://{node}/healthz")
        page.evaluate(PAGE, [site, f"ws://{node}/ws"])
        yield page


def _send(address: tuple[str, int]) -> None:
    """Publish at the rate, a part of the devices in each tick; each waits for its own answers."""
    clients = [Client(address, f"chain-{number}") for number in range(DEVICES)]
    per_tick = round(RATE * TICK_S)
    total, sent, began = round(RATE * LENGTH_S), 0, time.perf_counter()
    for client in clients:
        client.socket.setblocking(False)
    while sent < total:
        by_device: dict[int, list[bytes]] = {}
        for number in range(sent, min(total, sent + per_tick)):
            by_device.setdefault(number % DEVICES, []).append(_telemetry(number))
        for device, packets in by_device.items():
            _write(clients[device], b"".join(packets))
        sent += per_tick
        wait_s = began + sent / RATE - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
    for client in clients:
        client.socket.close()


def _write(client: Client, data: bytes) -> None:
    """Write, and read the acknowledgements that have come."""
    try:
        client.socket.recv(READ_BYTES)
    except BlockingIOError:
        pass  # none have
    client.socket.setblocking(True)
    client.socket.sendall(data)
    client.socket.setblocking(False)


def _telemetry(number: int) -> bytes:
    """Return a message of QoS 1 that says when it was sent."""
    topic = f"{NAME}/chain-{number % DEVICES}/telemetry/heat".encode()
    told = {"value": number % 40, "sent": time.time() * 1000, "number": number}
    payload = json.dumps(told).encode().ljust(PAYLOAD_SIZE)
    identifier = struct.pack(">H", number % 65_535 + 1)
    body = struct.pack(">H", len(topic)) + topic + identifier + payload
    return bytes((0x32, len(body) & 0x7F | 0x80, len(body) >> 7)) + body


def _all_seen(page: "Page", count: int) -> dict[str, float]:
    """Wait until the page has seen so many messages; each of them must be another one."""
    deadline = time.monotonic() + WAIT_S
    while page.evaluate(COUNT) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the page saw {page.evaluate(COUNT)} of {count} messages")
        time.sleep(0.05)
    found: dict[str, float] = page.evaluate(RESULT)
    assert found["count"] == found["distinct"] == count, found
    return found

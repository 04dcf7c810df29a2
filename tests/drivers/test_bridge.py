"""E7: the gateways and the IoT layer on a company's broker, which knows nothing of devices."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest
from websockets.asyncio.client import connect

from chordmq.clock import SystemClock
from chordmq.drivers.adapter import Message, MessageBrokerAdapter, Subscription
from chordmq.drivers.addresses import open_driver
from chordmq.drivers.bridge import Bridge, BridgeSettings
from tests.conftest import StartNode
from tests.drivers.reading import WAIT_S, taken
from tests.drivers.servers import OTHERS, SERVERS, Server
from tests.running_node import RunningNode


@asynccontextmanager
async def bridged(
    node: RunningNode, server: Server, settings: BridgeSettings
) -> AsyncIterator[MessageBrokerAdapter]:
    """Carry between a node and a broker; give the broker."""
    async with (
        open_driver(f"chordmq://{node.bootstrap}") as here,
        open_driver(server.address) as there,
    ):
        bridge = Bridge(here, there, settings, SystemClock(), random.Random(1))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(bridge.run())
            async with asyncio.timeout(WAIT_S):
                await bridge.opened()
            yield there
            running.cancel()


@pytest.mark.parametrize("kind", OTHERS)
async def test_devices_and_browsers_live_on_a_broker_that_is_there(
    kind: str, start_node: StartNode, tmp_path: Path
) -> None:
    """E5, E7: telemetry of a device goes to the broker; what that has comes to a browser, once."""
    node, server = start_node(), SERVERS[kind](tmp_path / kind)
    server.start()
    try:
        async with bridged(node, server, BridgeSettings()) as company:
            await _telemetry_goes_out(node, company)
            await _commands_come_in(node, company)
    finally:
        server.close()


async def _telemetry_goes_out(node: RunningNode, company: MessageBrokerAdapter) -> None:
    wanted = Subscription(filter="iotsphere/devices/+/telemetry/#", index="application")
    host, port = node.mqtt_address
    async with (
        company.subscribed(wanted) as inbox,
        aiomqtt.Client(host, port, timeout=WAIT_S) as device,
    ):
        for number in range(20):
            topic = f"iotsphere/devices/d{number % 3}/telemetry/heat"
            await device.publish(topic, str(number), qos=1)
        got = await taken(inbox, 20)
        await inbox.accept(got)
    assert sorted(int(one.message.value or b"") for one in got) == list(range(20))


async def _commands_come_in(node: RunningNode, company: MessageBrokerAdapter) -> None:
    """A program that knows only that broker changes a shadow; a browser at the node sees it."""
    name = "iotsphere/devices/d1/shadow/update"
    host, port = node.http_address
    async with connect(f"ws://{host}:{port}/ws", subprotocols=["chordmq.json"]) as browser:  # type: ignore[list-item]
        await _told(browser, "welcome")
        topic = f"{name}/accepted"
        await browser.send(json.dumps({"type": "subscribe", "id": 1, "topic": topic}))
        await _told(browser, "subscribed")
        change = {"state": {"desired": {"heat": 21}}}
        await company.publish([Message(name=name, value=json.dumps(change).encode())])
        told = await _told(browser, "records")
    assert told["records"][0]["name"] == topic
    async with httpx.AsyncClient(base_url=node.http, timeout=60) as client:
        answer = await client.get("/v1/devices/d1/shadow")
    assert answer.json()["state"]["desired"] == {"heat": 21}
    assert answer.json()["version"] == 1


async def _told(browser: Any, kind: str) -> Any:
    async with asyncio.timeout(WAIT_S):
        while True:
            told = json.loads(await browser.recv())
            if told["type"] == kind:
                return told

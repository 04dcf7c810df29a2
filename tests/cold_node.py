"""A whole node in the test's event loop, on a disk that gives nothing until it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.node import Node, running
from chordmq.records.record import NewRecord, build_batch
from tests.cold_disk import Disk
from tests.test_node import config

PAGE = bytes(20_000)
"""What makes messages long, so that a reader goes to the disk more than once for a few."""


class ColdNode:
    """Such a node, and where its clients find it."""

    def __init__(self, node: Node, disk: Disk) -> None:
        self.node = node
        self.broker = node.broker
        self.disk = disk
        self.mqtt_address = ("127.0.0.1", node.fronts["mqtt"].port)
        self.amqp_address = ("127.0.0.1", node.fronts["amqp"].port)

    def partition(self, topic: str) -> Partition:
        """Return the first partition of a topic."""
        return self.broker.partition(topic, 0)

    async def append(self, topic: str, *values: bytes) -> None:
        """Append batches of a message each to a topic, as by another front."""
        for value in values:
            now_ms = self.node.clock.now_ms()
            batch = build_batch([NewRecord(now_ms, None, value)])
            appended = self.partition(topic).append(memoryview(batch))
            committed = self.partition(topic).committed(appended.next_offset)
            if committed is not None:
                await committed

    @property
    def waits(self) -> int:
        """Return how often the disk was waited for, or is."""
        return self.broker.shared.read_ahead.fetched

    async def waiting(self, times: int = 1) -> None:
        """Wait until somebody waits for the disk."""
        async with asyncio.timeout(60):
            while self.waits < times:  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(0)


@asynccontextmanager
async def cold_node(directory: Path, disk: Disk) -> AsyncIterator[ColdNode]:
    """Run a node that keeps no records in memory; what goes wrong in its loop is a failure."""
    faults: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, fault: faults.append(fault))
    settings = replace(config(directory), broker=BrokerSettings(log_memory_max_bytes=0))
    async with running(settings, SystemClock()) as node:
        try:
            yield ColdNode(node, disk)
        finally:
            disk.may_go_on.set()
    loop.set_exception_handler(None)
    assert not faults


def pages(count: int) -> list[bytes]:
    """Return long messages that differ."""
    return [b"%06d" % number + PAGE for number in range(count)]


def numbers(messages: list[bytes]) -> list[int]:
    """Return which messages these are, in their order."""
    return [int(message[:6]) for message in messages]

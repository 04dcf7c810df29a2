"""What is followed for the filters of all clients."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chordmq.clock import SystemClock
from chordmq.node import running
from tests.test_node import config


async def test_a_log_topic_that_is_made_while_a_filter_waits_for_other_nodes_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3: other nodes say where what they lead ends, and may take their time."""
    async with running(config(tmp_path), SystemClock()) as node:
        assert node.mqtt is not None
        front, topics = await node.mqtt.opened(), node.broker.topics
        await topics.create("a.old", 1)
        answer, asked, may_answer = node.broker.bounds.of, asyncio.Event(), asyncio.Event()

        async def slowly(*of: Any, **more: Any) -> Any:
            asked.set()
            await may_answer.wait()
            return await answer(*of, **more)

        monkeypatch.setattr(node.broker.bounds, "of", slowly)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(front.reach("a/+"))
            await asked.wait()
            await topics.create("a.new", 1)
            may_answer.set()
        assert {partition.topic for partition in front.tails} == {"a.old", "a.new"}

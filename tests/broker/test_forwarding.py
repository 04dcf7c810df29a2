"""Proves that any node takes records, whoever leads their partition."""

import asyncio
from pathlib import Path

import pytest

from chordmq.broker.appends import Appends
from chordmq.broker.settings import TopicSettings
from chordmq.errors import NotEnoughReplicas
from chordmq.records.record import NewRecord
from tests.broker.replicated import join, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=2)


async def test_records_given_to_any_node_are_committed_by_the_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        join(copies)
        appends = Appends()
        async with asyncio.timeout(60):
            offsets = await asyncio.gather(
                *(
                    appends.append(copies.nodes[3].partition, [NewRecord(0, None, value)])
                    for value in (b"a", b"b", b"c")
                )
            )
        assert offsets == [0, 1, 2]
        assert copies.nodes[1].values() == [b"a", b"b", b"c"]


async def test_a_node_that_has_become_leader_meanwhile_appends_itself(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        join(copies)
        await copies.change(leader=-1, leader_epoch=1)
        waiting = Appends().append(copies.nodes[2].partition, [NewRecord(0, None, b"a")])
        await asyncio.sleep(0)
        await copies.elect(2)
        async with asyncio.timeout(60):
            assert await waiting == 0
        await until(lambda: copies.nodes[1].partition.high_watermark == 1)


async def test_what_the_leader_refuses_is_refused_here_by_the_same_name(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        join(copies)
        for node in copies.nodes.values():
            assert node.partition.replica is not None
            node.partition.replica.set_min_in_sync(3)
        await copies.isolate(2)
        await copies.change(isr=(1, 3))
        with pytest.raises(NotEnoughReplicas):
            await Appends().append(copies.nodes[3].partition, [NewRecord(0, None, b"a")])

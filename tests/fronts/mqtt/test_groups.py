"""Log topics that are made while a group waits for them: their leader may not be ready yet."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from chordmq.broker.names import Names
from chordmq.codecs.mqtt.packets import Options
from chordmq.errors import CoordinatorLoading
from chordmq.fronts.mqtt import groups, readers
from chordmq.fronts.mqtt.groups import Groups
from chordmq.fronts.mqtt.shared import SharedReader
from chordmq.fronts.mqtt.subscriptions import Subscription


class LateLeader:
    """Keeps cursors once it has read those that there are."""

    def __init__(self) -> None:
        self.asked = 0

    async def open(self, group: str, topic: str, partition: int, **_: Any) -> Any:
        """Return a cursor, at the third time."""
        self.asked += 1
        if self.asked < 3:
            raise CoordinatorLoading(f"cursors of {topic}-{partition} are being read")
        return SimpleNamespace(partition=PARTITION)


class OnePartition:
    """As much of a partition as is looked at."""

    topic, index, is_closed, moved_to = "jobs", 0, False, None


PARTITION: Any = OnePartition()
TOPIC: Any = SimpleNamespace(name="jobs", is_internal=False, partitions=[PARTITION])


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (groups, readers):
        monkeypatch.setattr(module, "RETRY_S", 0.0)


def node(leader: LateLeader) -> Any:
    return SimpleNamespace(cursors=leader, topics=SimpleNamespace(find=lambda _: TOPIC))


async def test_a_group_whose_clients_are_away_begins_when_the_leader_is_ready() -> None:
    """A5, E3: or it would miss what comes before its first client does."""
    leader = LateLeader()
    known = Groups(node(leader), Names())
    known.note("$queue/jobs", "jobs", "")
    async with asyncio.timeout(60):
        await known.reach([TOPIC])
    assert leader.asked == 3


async def test_a_client_joins_when_the_leader_is_ready() -> None:
    """E3: no other change of topics need come for it."""
    leader = LateLeader()
    outbox: Any = SimpleNamespace(connection=None)
    session: Any = SimpleNamespace(client_id="c", outbox=outbox)
    subscription = Subscription(session, "$queue/jobs", Options(qos=1), is_granted=True)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        front: Any = SimpleNamespace(broker=node(leader), tasks=tasks)
        reader = SharedReader(front, subscription, "$queue/jobs", ("jobs", ""))
        reader.look_again()
    assert list(reader.sources) == [PARTITION]

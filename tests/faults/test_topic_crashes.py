"""kill -9 while topics are created, grown and deleted: what was acknowledged is so afterwards."""

import random
import threading
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.running_node import RunningNode

CRASHES = 4
NAMES = [f"t{number}" for number in range(6)]


class Admin(threading.Thread):
    """Changes topics at random until the node is gone, and remembers what it was promised."""

    def __init__(self, bootstrap: str, partitions: dict[str, int], seed: int) -> None:
        super().__init__(daemon=True)
        self.partitions = partitions
        """The acknowledged number of partitions of each topic; 0 for a deleted one."""
        self.unsure: dict[str, int] = {}
        """What the change under way at the crash would lead to: it may be so or not."""
        self.changes = 0
        self.busy = threading.Event()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._random = random.Random(seed)

    def run(self) -> None:
        """Make one change after the other."""
        try:
            self._change_all()
        finally:
            self.busy.set()  # also if the last change was too slow to be sure of it

    def _change_all(self) -> None:
        while True:
            name = self._random.choice(NAMES)
            after, futures = self._change(name)
            self.unsure = {name: after}
            try:
                futures[name].result(60)
            except KafkaException:
                return
            self.partitions[name], self.unsure = after, {}
            self.changes += 1
            if self.changes == 5:
                self.busy.set()

    def _change(self, name: str) -> tuple[int, dict[str, Any]]:
        now = self.partitions.get(name, 0)
        limits = {"operation_timeout": 2, "request_timeout": 4}
        if now == 0:
            return 2, self._admin.create_topics([NewTopic(name, 2, 1)], **limits)
        if now < 4 and self._random.random() < 0.5:
            return now + 1, self._admin.create_partitions([NewPartitions(name, now + 1)], **limits)
        return 0, self._admin.delete_topics([name], **limits)


def test_acknowledged_topics_are_as_promised_after_every_crash(own_node: RunningNode) -> None:
    """D5: rows decide, files follow; C1: an answer is a promise."""
    partitions: dict[str, int] = {}
    for crash in range(CRASHES):
        admin = Admin(own_node.bootstrap, partitions, crash)
        admin.start()
        assert admin.busy.wait(60)
        own_node.kill9()
        admin.join(60)
        assert not admin.is_alive()
        own_node.start()
        found = topics_of(own_node)
        for name in NAMES:
            promised = partitions.get(name, 0)
            assert found.get(name, 0) in {promised, admin.unsure.get(name, promised)}, name
            partitions[name] = found.get(name, 0)
        assert list(own_node.data.rglob("*-stray")) == [], "a directory lost its topic"


def topics_of(node: RunningNode) -> dict[str, int]:
    topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=60).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}

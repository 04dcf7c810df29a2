"""A partition that other nodes hold: known by name and leader, and of no further use here."""

from collections.abc import Callable
from pathlib import Path

from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition, Shared
from chordmq.broker.settings import TopicSettings
from chordmq.cluster.state import NO_LEADER
from chordmq.errors import NotLeader
from chordmq.storage.absent import AbsentLog


class AbsentPartition(Partition):
    """Refuses what needs the records; its replica knows who leads."""

    is_absent = True
    copy_for_reader: "Callable[[Partition], int] | None" = None
    """Says whom a reader should ask; the leader if nobody says."""

    def __init__(self, topic: str, index: int, settings: TopicSettings, shared: Shared) -> None:
        log = AbsentLog(Path(f"{topic}-{index}"), log_settings(settings))
        super().__init__(topic, index, log, settings, shared)

    def read(self, offset: int, max_bytes: int, *, only_stable: bool = False) -> list[memoryview]:
        """Refuse: whoever asks goes to another node."""
        if self.copy_for_reader is None:
            raise self._elsewhere()
        raise NotLeader(f"{self.topic}-{self.index} is on other nodes", self.copy_for_reader(self))

    async def delete_records(self, before: int) -> int:
        """Refuse."""
        raise self._elsewhere()

    async def discard(self) -> None:
        """Tell all who wait that nothing comes; there are no files."""
        self._end()

    def _elsewhere(self) -> NotLeader:
        leader = self.replica.leader_hint[0] if self.replica is not None else NO_LEADER
        return NotLeader(f"{self.topic}-{self.index} is on other nodes", leader)

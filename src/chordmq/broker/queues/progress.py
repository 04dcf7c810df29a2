"""Keeps in the log how far queues have come, many small steps in one write."""

import asyncio
from collections.abc import Callable

from chordmq.broker.internal_log import InternalLog
from chordmq.broker.partition import Partition
from chordmq.broker.queues.definitions import Held, Routed, Stored
from chordmq.broker.queues.queue import Queue
from chordmq.errors import ChordMQError
from chordmq.logs import get_logger

log = get_logger(__name__)

STORE_DELAY_S = 0.05
"""How long what was acknowledged may wait to be stored; a crash meanwhile repeats it."""
MARK_DELAY_S = 1.0
"""The same for the place in a partition that no queue has got anything from."""


class Progress:
    """What has changed since the last write; one write at a time.

    Of a partition, the place up to which it is handed out is stored together with all that queues
    hold of it, so that a restart finds the two in step.
    """

    def __init__(
        self,
        stored: InternalLog[Stored],
        routed: Callable[[Partition], int],
        id_of: Callable[[str], bytes],
    ) -> None:
        self._log = stored
        self._routed = routed
        self._id_of = id_of
        self._changed: dict[Partition, dict[Queue, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._is_closed = False

    @property
    def unstored(self) -> int:
        """Return how many partitions have changes that the log does not hold yet."""
        return len(self._changed) + self._is_writing

    def touched(self, partition: Partition, queue: Queue) -> None:
        """Have it stored soon what a queue holds of a partition."""
        queues = self._changed.get(partition)
        if queues is None:
            queues = self._changed[partition] = {}
        if not queues:
            self._schedule(STORE_DELAY_S)
        queues[queue] = None

    def mark(self, partition: Partition) -> None:
        """Have it stored some time how far a partition is handed out."""
        if partition not in self._changed:
            self._changed[partition] = {}
            self._schedule(MARK_DELAY_S)

    def _schedule(self, delay_s: float) -> None:
        """Store what has changed after a time, unless that is to happen sooner anyway."""
        if self._is_writing or self._is_closed:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._store)

    def _store(self) -> None:
        self._timer = None
        entries = self.take()
        if not entries:
            return
        self._is_writing = True
        try:
            self._log.append("queues", entries, self._written)
        except ChordMQError as error:
            self._written(error)

    def take(self) -> list[Stored]:
        """Return what is to be written now, and take it as written."""
        changed, self._changed = self._changed, {}
        entries: list[Stored] = []
        for partition, queues in changed.items():
            if partition.is_closed:
                continue
            topic_id = self._id_of(partition.topic)
            entries.append(Routed(topic_id, partition.index, self._routed(partition)))
            entries += (_held(queue, partition, topic_id) for queue in queues if _is_kept(queue))
        return entries

    def _written(self, error: ChordMQError | None) -> None:
        self._is_writing = False
        if error is not None:
            # Nothing is lost but the memory of what was acknowledged; the next write has it all.
            log.warning("progress of queues not stored", error=str(error))
        if self._changed:
            self._schedule(STORE_DELAY_S)

    def close(self) -> None:
        """Store no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()


def _is_kept(queue: Queue) -> bool:
    return queue.facts.durable and not queue.facts.exclusive and not queue.is_deleted


def _held(queue: Queue, partition: Partition, topic_id: bytes) -> Held:
    facts = queue.facts
    source = queue.sources.get(partition)
    if source is None or source.is_idle:
        return Held(facts.vhost, facts.name, topic_id, partition.index, None)
    start, changes = source.stored()
    return Held(facts.vhost, facts.name, topic_id, partition.index, start, changes)

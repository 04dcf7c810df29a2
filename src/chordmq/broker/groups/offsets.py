"""Committed offsets of all groups: decides what to log, and applies what the log holds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, OffsetMetadataTooLarge
from chordmq.records.marker import Marker

Place = tuple[str, int]
"""A topic and the index of one of its partitions."""
LATEST_MS = 2**63 - 1
"""The latest time that a log can hold; a client may ask for a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """Where a group stands in one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int
    expire_ms: int = -1
    """When an old client wants it forgotten; -1 leaves that to the node's setting."""


class Commit(NamedTuple):
    """One offset that a group wants to keep."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class OffsetKey(NamedTuple):
    """What an offset belongs to."""

    group_id: str
    topic: str
    partition: int


class OffsetRecord(NamedTuple):
    """One entry of the log: an offset committed, or None when it is deleted."""

    key: OffsetKey
    committed: CommittedOffset | None


class Offsets:
    """The newest committed offset of each group and partition; only `replay` changes it."""

    def __init__(self, metadata_bytes_max: int) -> None:
        self._metadata_bytes_max = metadata_bytes_max
        self._groups: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[tuple[int, int], dict[OffsetKey, CommittedOffset]] = {}
        """Offsets of open transactions, by partition of the log and producer id."""

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return what a group has committed, by topic and partition."""
        return self._groups.get(group_id, {})

    def groups(self) -> Iterator[str]:
        """Yield the groups that have committed anything."""
        return iter(self._groups)

    def pending(self, group_id: str) -> set[Place]:
        """Return where transactions that are not finished would move a group."""
        return {
            (key.topic, key.partition)
            for offsets in self._pending.values()
            for key in offsets
            if key.group_id == group_id
        }

    def topics(self) -> set[str]:
        """Return the topics in which any group has committed, or will."""
        committed = {topic for places in self._groups.values() for topic, _ in places}
        return committed.union(key.topic for offsets in self._pending.values() for key in offsets)

    def commits(
        self, group_id: str, commits: Iterable[Commit], now_ms: int, retention_ms: int = -1
    ) -> tuple[list[OffsetRecord], list[ChordMQError | None]]:
        """Return the records that commit offsets, and the error of each offset or None."""
        expire_ms = min(now_ms + retention_ms, LATEST_MS) if retention_ms >= 0 else -1
        records: list[OffsetRecord] = []
        results: list[ChordMQError | None] = []
        for commit in commits:
            committed = CommittedOffset(
                offset=commit.offset,
                leader_epoch=commit.leader_epoch,
                metadata=commit.metadata,
                commit_ms=now_ms,
                expire_ms=expire_ms,
            )
            key = OffsetKey(group_id, commit.topic, commit.partition)
            try:
                records.append(self.commit(key, committed))
                results.append(None)
            except OffsetMetadataTooLarge as error:
                results.append(error)
        return records, results

    def commit(self, key: OffsetKey, committed: CommittedOffset) -> OffsetRecord:
        """Return the record that commits an offset, or raise why it must not be."""
        size = len(committed.metadata.encode())
        if size > self._metadata_bytes_max:
            raise OffsetMetadataTooLarge(f"{size} bytes, at most {self._metadata_bytes_max}")
        return OffsetRecord(key, committed)

    def delete_group(self, group_id: str) -> list[OffsetRecord]:
        """Return the records that delete all offsets of a group, pending ones too."""
        return [
            OffsetRecord(OffsetKey(group_id, topic, partition), None)
            for topic, partition in self.of_group(group_id).keys() | self.pending(group_id)
        ]

    def delete_topic(self, topic: str) -> list[OffsetRecord]:
        """Return the records that delete all offsets in a topic, pending ones too."""
        keys = {
            OffsetKey(group_id, topic, partition)
            for group_id, places in self._groups.items()
            for name, partition in places
            if name == topic
        }
        keys.update(key for offsets in self._pending.values() for key in offsets if key[1] == topic)
        return [OffsetRecord(key, None) for key in keys]

    def expire(
        self,
        group_id: str,
        idle_since: Callable[[str, CommittedOffset], int | None],
        retention_ms: int,
        now_ms: int,
    ) -> list[OffsetRecord]:
        """Return the records that delete a group's offsets nobody has needed for too long.

        `idle_since` says since when the offset of a topic is not in use, or None if it is.
        """
        expired = []
        for (topic, partition), committed in self.of_group(group_id).items():
            since_ms = idle_since(topic, committed)
            if since_ms is None:
                continue
            end_ms = since_ms + retention_ms if committed.expire_ms < 0 else committed.expire_ms
            if now_ms >= end_ms:
                expired.append(OffsetRecord(OffsetKey(group_id, topic, partition), None))
        return expired

    def replay_pending(self, log_partition: int, producer_id: int, record: OffsetRecord) -> None:
        """Take over an offset that counts when its transaction is committed."""
        if record.committed is not None:
            offsets = self._pending.setdefault((log_partition, producer_id), {})
            offsets[record.key] = record.committed

    def replay_marker(self, log_partition: int, marker: Marker) -> list[str]:
        """Let a transaction's offsets count, or not; return the groups that moved."""
        offsets = self._pending.pop((log_partition, marker.producer_id), {})
        if not marker.is_commit:
            return []
        for key, committed in offsets.items():
            self._apply(OffsetRecord(key, committed))
        return list({key.group_id for key in offsets})

    def replay(self, record: OffsetRecord) -> None:
        """Take over what the log says of one offset."""
        for offsets in self._pending.values():  # the log's order decides: this came later
            offsets.pop(record.key, None)
        self._apply(record)

    def forget(self, log_partition: int, group_ids: Iterable[str]) -> None:
        """Drop what one partition of the log says; the log keeps it for whoever leads it."""
        for group_id in group_ids:
            self._groups.pop(group_id, None)
        for key in [key for key in self._pending if key[0] == log_partition]:
            del self._pending[key]

    def _apply(self, record: OffsetRecord) -> None:
        group_id, topic, partition = record.key
        if record.committed is not None:
            self._groups.setdefault(group_id, {})[topic, partition] = record.committed
            return
        places = self._groups.get(group_id, {})
        places.pop((topic, partition), None)
        if not places:
            self._groups.pop(group_id, None)

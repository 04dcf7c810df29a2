"""Committed offsets of all groups: decides what to log, and applies what the log holds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chordmq.errors import OffsetMetadataTooLarge

Place = tuple[str, int]
"""A topic and the index of one of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """Where a group stands in one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int
    expire_ms: int = -1
    """When an old client wants it forgotten; -1 leaves that to the node's setting."""


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

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return what a group has committed, by topic and partition."""
        return self._groups.get(group_id, {})

    def groups(self) -> Iterator[str]:
        """Yield the groups that have committed anything."""
        return iter(self._groups)

    def topics(self) -> set[str]:
        """Return the topics in which any group has committed."""
        return {topic for places in self._groups.values() for topic, _ in places}

    def commit(self, key: OffsetKey, committed: CommittedOffset) -> OffsetRecord:
        """Return the record that commits an offset, or raise why it must not be."""
        size = len(committed.metadata.encode())
        if size > self._metadata_bytes_max:
            raise OffsetMetadataTooLarge(f"{size} bytes, at most {self._metadata_bytes_max}")
        return OffsetRecord(key, committed)

    def delete_group(self, group_id: str) -> list[OffsetRecord]:
        """Return the records that delete all offsets of a group."""
        return [
            OffsetRecord(OffsetKey(group_id, topic, partition), None)
            for topic, partition in self.of_group(group_id)
        ]

    def delete_topic(self, topic: str) -> list[OffsetRecord]:
        """Return the records that delete all offsets in a topic."""
        return [
            OffsetRecord(OffsetKey(group_id, topic, partition), None)
            for group_id, places in self._groups.items()
            for name, partition in places
            if name == topic
        ]

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

    def replay(self, record: OffsetRecord) -> None:
        """Take over what the log says of one offset."""
        group_id, topic, partition = record.key
        if record.committed is not None:
            self._groups.setdefault(group_id, {})[topic, partition] = record.committed
            return
        places = self._groups.get(group_id, {})
        places.pop((topic, partition), None)
        if not places:
            self._groups.pop(group_id, None)

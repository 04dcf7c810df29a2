"""The topics of a node as they are at one moment, for machines that do not look for themselves."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from chordmq.broker.groups.patterns import matches


class TopicFacts(NamedTuple):
    """What a group needs to know of a topic."""

    name: str
    id: bytes
    partitions: int
    is_internal: bool = False


class TopicView:
    """Topics by name and by id; a change of topics makes a new view."""

    def __init__(self, topics: Iterable[TopicFacts]) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.id: topic for topic in self.by_name.values()}
        self._matching: dict[str, frozenset[str]] = {}

    def matching(self, pattern: str) -> frozenset[str]:
        """Return the names that follow a pattern; the broker's own topics must be named."""
        found = self._matching.get(pattern)
        if found is None:
            found = frozenset(
                name
                for name, topic in self.by_name.items()
                if not topic.is_internal and matches(pattern, name)
            )
            self._matching[pattern] = found
        return found

    def digest(self, names: Iterable[str]) -> int:
        """Return a number that changes when one of these topics comes, goes or grows."""
        facts = [self.by_name[name] for name in sorted(names) if name in self.by_name]
        digest = hashlib.blake2b(repr(facts).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

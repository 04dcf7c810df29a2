"""What the log of queues adds up to: the definitions in force and what queues still hold."""

from collections.abc import Callable, Mapping

from chordmq.broker.queues.definitions import Definition, Held, Made, Routed, Stored
from chordmq.broker.queues.exchanges import Binding, Exchange
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.virtual_host import VirtualHost

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""


class Image:
    """Collects entries in the order of the log; the newest of each key counts."""

    def __init__(self) -> None:
        self._definitions: dict[tuple[str, str, str], Definition] = {}
        self.routed: dict[Place, int] = {}
        self.held: dict[Place, dict[tuple[str, str], Held]] = {}

    def replay(self, entry: Stored) -> None:
        """Apply one entry."""
        if isinstance(entry, Definition):
            key = entry[:3]
            self._definitions.pop(key, None)
            if entry.value is not None:
                self._definitions[key] = entry
        elif isinstance(entry, Routed):
            place = (entry.topic_id, entry.partition)
            self.routed.pop(place, None)
            if entry.until is not None:
                self.routed[place] = entry.until
        else:
            queues = self.held.setdefault((entry.topic_id, entry.partition), {})
            queues.pop((entry.vhost, entry.queue), None)
            if entry.start is not None:
                queues[entry.vhost, entry.queue] = entry

    def holds(self, topic_id: bytes) -> bool:
        """Return whether a queue still holds something of a topic."""
        return any(place[0] == topic_id and queues for place, queues in self.held.items())

    @property
    def vhosts(self) -> set[str]:
        """Return the virtual hosts that something is declared in."""
        return {one.vhost for one in self._definitions.values() if one.vhost}

    @property
    def made(self) -> set[str]:
        """Return the topics that were made for exchanges and queues."""
        return {one.identity for one in self._definitions.values() if isinstance(one.value, Made)}

    def restore(
        self, vhosts: Mapping[str, VirtualHost], queue_of: Callable[[QueueFacts], Queue]
    ) -> None:
        """Put what is declared into its virtual hosts."""
        for _, vhost, name, value in self._definitions.values():
            if isinstance(value, Exchange):
                vhosts[vhost].exchanges.add(value)
            elif isinstance(value, QueueFacts):
                vhosts[vhost].queues[name] = queue_of(value)
            elif isinstance(value, Binding):
                vhosts[vhost].exchanges.bind(value)

"""Which partitions are handed out to queues, and how far each of them is."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from chordmq.broker.bounds import Bounds, Extent
from chordmq.broker.feed import Feed
from chordmq.broker.internal_log import Host
from chordmq.broker.leaders import Leaders
from chordmq.broker.names import Names
from chordmq.broker.partition import Partition
from chordmq.broker.queues.definitions import Routed, Stored
from chordmq.broker.queues.follower import READ_BYTES, READ_TIMEOUT_S, Follower, Router
from chordmq.broker.queues.image import Image
from chordmq.broker.queues.places import TRANSIENT, filter_of_pattern
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.source import Source
from chordmq.broker.queues.virtual_host import HIERARCHICAL, VirtualHost
from chordmq.broker.topic import Topic

LOOKED_AT_ONCE = 10_000


class Keeper(Router, Protocol):
    """What the followers need of those who keep the queues."""

    vhosts: dict[str, VirtualHost]

    def __iter__(self) -> Iterator[Queue]:
        """Yield all queues."""
        ...


class QueueHost(Host, Protocol):
    """What queues need of the broker they belong to."""

    @property
    def bounds(self) -> Bounds:
        """Return what says where partitions begin and end."""
        ...

    @property
    def leaders(self) -> Leaders:
        """Return the way to those who lead partitions."""
        ...


class Following:
    """One follower for each partition that queues get, or may get, messages from."""

    def __init__(self, host: QueueHost, keeper: Keeper) -> None:
        self._topics = host.topics
        self._bounds = host.bounds
        self.names = Names()
        self._keeper = keeper
        self._followers: dict[Partition, Follower] = {}

    def position(self, partition: Partition) -> int:
        """Return the offset before which a partition is handed out."""
        follower = self._followers.get(partition)
        return partition.high_watermark if follower is None else follower.position

    def follows(self, partition: Partition) -> bool:
        """Return whether a partition is handed out."""
        return partition in self._followers

    def recover(self, image: Image) -> None:
        """Hand partitions out again, each from the first message that a queue still holds."""
        held_topics = [topic for topic in self._topics if image.holds(topic.id)]
        for topic in dict.fromkeys([*self._wanted(), *held_topics]):
            for partition in topic.partitions:
                self._recover(image, topic, partition)

    def _recover(self, image: Image, topic: Topic, partition: Partition) -> None:
        place = (topic.id, partition.index)
        known_until = image.routed.get(place, partition.log.start_offset)
        position = known_until
        for held in image.held.get(place, {}).values():
            queue = self._keeper.vhosts[held.vhost].queues.get(held.queue)
            if queue is not None and held.start is not None:
                queue.sources[partition] = Source(partition, held.start, held.changes)
                position = min(position, held.start)
        self._follow(partition, position, known_until)

    def look_again(self) -> None:
        """Follow topics that are new, from their beginning; forget those that are gone."""
        for partition in [one for one in self._followers if one.is_closed]:
            follower = self._followers.pop(partition)
            if partition.moved_to is not None:
                self._move(follower, partition.moved_to)
                continue
            follower.close()
            for queue in self._keeper:
                source = queue.sources.get(partition)
                if source is not None:
                    queue.drop_source(source)
        for topic in self._wanted():
            for partition in topic.partitions:
                if partition not in self._followers:
                    start = partition.log.start_offset
                    self._follow(partition, start, start)

    def _move(self, follower: Follower, partition: Partition) -> None:
        """Go on with what stands for a partition after a copy came here, or went."""
        before = follower.partition
        self._followers[partition] = follower
        follower.move(partition)
        for queue in self._keeper:
            source = queue.sources.pop(before, None)
            if source is not None:
                source.partition = partition
                queue.sources[partition] = source
                self._keeper.arrived(partition, queue)

    async def begin_at_ends(self) -> list[Stored]:
        """Follow topics that were there before a queue could want them; return what to store."""
        new = {
            partition: topic.id
            for topic in self._wanted()
            for partition in topic.partitions
            if partition not in self._followers
        }
        entries: list[Stored] = []
        for partition, extent in (await self._bounds.known(new)).items():
            if partition not in self._followers:
                end = extent.watermark
                entries.append(Routed(new[partition], partition.index, end))
                self._follow(partition, end, end)
        return entries

    def forget_unwanted(self) -> tuple[list[Stored], list[str]]:
        """Follow no more what nothing needs; return what to store, and the topics."""
        wanted = {one for topic in self._wanted() for one in topic.partitions}
        for queue in self._keeper:
            wanted.update(one for one, source in queue.sources.items() if not source.is_idle)
        entries: list[Stored] = []
        topics: dict[str, None] = {}
        for partition in [one for one in self._followers if one not in wanted]:
            self._followers.pop(partition).close()
            topic = self._topics.find(partition.topic)
            if topic is not None:
                entries.append(Routed(topic.id, partition.index, None))
                topics[topic.name] = None
        return entries, list(topics)

    def _follow(self, partition: Partition, position: int, known_until: int) -> None:
        follower = Follower(partition, position, known_until, self._keeper)
        self._followers[partition] = follower
        follower.wake()

    def _wanted(self) -> list[Topic]:
        wanted = {name for vhost in self._keeper.vhosts.values() for name in vhost.topics}
        for vhost in self._keeper.vhosts.values():
            bindings = vhost.exchanges.bindings_from(HIERARCHICAL) if vhost.has_hierarchy else ()
            for binding in bindings:
                reach = self.names.reach(filter_of_pattern(binding.key))
                wanted.update(topic.name for topic in reach.among(self._topics))
        found = (self._topics.find(name) for name in wanted)
        return [
            topic
            for topic in found
            if topic is not None and (topic.name == TRANSIENT or not topic.is_internal)
        ]

    def refill(self, queue: Queue) -> None:
        """Have a queue look at more of what lies in the log."""
        for partition, source in list(queue.sources.items()):
            if source.is_behind and partition in self._followers:
                self._followers[partition].refill(queue)

    async def look_back(self, queue: Queue, name: str) -> None:
        """Give a queue what lies in a topic already, if it was told to begin there."""
        start, topic = queue.rules.start, self._topics.find(name)
        if topic is None or start in (None, "next"):
            return
        queue.facts = replace(queue.facts, since=0)  # older messages are the queue's, too
        extents = await self._bounds.of(topic.partitions)
        for partition, extent in extents.items():
            if partition not in queue.sources:
                await self._look_back(queue, partition, start_offset(extent, start))
                self._keeper.arrived(partition, queue)
        queue.settle_down()

    async def _look_back(self, queue: Queue, partition: Partition, start: int) -> None:
        """Give a new queue what was handed out before it was there, from an offset on."""
        follower = self._followers.get(partition)
        if follower is None or start >= follower.position:
            return
        source = queue.sources[partition] = Source(partition, start)
        source.is_behind = True
        feed = Feed({partition.index: partition}, {partition.index: start}, is_patient=True)
        while feed.offsets[partition.index] < follower.position:
            for _, record in feed.take(LOOKED_AT_ONCE, READ_BYTES):
                if record.offset < follower.position and follower.is_for(queue, record):
                    queue.arrived(len(record.value or b""))
            if feed.is_at_end and not await feed.more(READ_TIMEOUT_S):
                break  # whoever has it does not answer

    def done(self) -> list[tuple[Partition, int]]:
        """Return for each partition the offset before which no queue has anything to do."""
        found = []
        for partition, follower in self._followers.items():
            before = follower.position
            for queue in self._keeper:
                source = queue.sources.get(partition)
                if source is not None and not source.is_idle:
                    before = min(before, source.start)
            found.append((partition, before))
        return found

    async def reached(self, partition: Partition, offset: int) -> None:
        """Wait until all before an offset is handed out, which a copy may get a bit later."""
        follower = self._followers.get(partition)
        if follower is not None:
            await follower.reached(offset)

    async def brought(self, queue: Queue) -> None:
        """Wait until a queue has got what the disk is asked for just now, as after a restart."""
        for partition in list(queue.sources):
            follower = self._followers.get(partition)
            if follower is not None and partition.is_on_its_way(follower.position):
                await follower.reached(follower.position + 1)

    def close(self) -> None:
        """Hand out no more."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()


def start_offset(extent: Extent, start: str | int | None) -> int:
    """Return where a queue begins that asks for it: `first`, `last` or an offset."""
    if start == "first":
        return extent.start
    if start == "last":
        return max(extent.watermark - 1, extent.start)
    return min(max(int(start or 0), extent.start), extent.watermark)

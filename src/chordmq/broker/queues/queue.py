"""One queue as a pure machine: what is ready, who gets it, what becomes of it."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import accumulate
from typing import Any, Protocol

from chordmq.broker.partition import Partition
from chordmq.broker.queues.arguments import QueueRules
from chordmq.broker.queues.consumer import BulkConsumer, Consumer
from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.exchanges import FOREVER
from chordmq.broker.queues.source import Source
from chordmq.broker.queues.turns import Turns
from chordmq.dataclass import dataclass

WINDOW_MESSAGES = 4096
WINDOW_BYTES = 8 * 1024 * 1024
"""Of messages that a queue keeps ready in memory; those behind them stay in the log."""

UNFOLDED = 16
"""Messages of those that are alike that are made entries at once."""

EXPIRED, REJECTED, OVERFLOWED, TRIED_TOO_OFTEN = "expired", "rejected", "maxlen", "delivery_limit"


class Keeper(Protocol):
    """What a queue needs of those who keep it."""

    def now_ms(self) -> int:
        """Return the wall-clock time."""
        ...

    def touched(self, queue: "Queue", source: Source) -> None:
        """Store how far the queue has come, soon."""
        ...

    def refill(self, queue: "Queue") -> None:
        """Have the queue look at more of what lies in the log."""
        ...

    def load(self, entry: Entry) -> bytes | None:
        """Return a message's body from the log; None if it is gone."""
        ...

    def fetch(self, queue: "Queue", entry: Entry) -> None:
        """Get a message's body from another node, and then call `restore`, or else `finish`."""
        ...

    def bury(self, queue: "Queue", entry: Entry, reason: str) -> None:
        """Dead-letter a message, and then call the queue's `finish`."""
        ...

    def routed(self, partition: Partition) -> int:
        """Return the offset before which a partition is handed out to queues."""
        ...

    def due(self, queue: "Queue", at_ms: int) -> None:
        """Have the queue's `expire` called at a time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A queue as it was declared."""

    vhost: str
    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    since: int = 0


class Queue:
    """Messages in their order (or by priority), and the consumers that share them."""

    def __init__(self, facts: QueueFacts, rules: QueueRules, keeper: Keeper) -> None:
        self.facts = facts
        self.rules = rules
        self.own_topic = ""
        """The topic whose records are in the queue without being handed out to it."""
        self.owner: object | None = None
        """The connection that an exclusive queue belongs to."""
        self.ready = 0
        """Messages that wait, in memory or in the log."""
        self.ready_bytes = 0
        self.unacked = 0
        self.announced = 0
        """Messages that are on their way into the log; counted where the length is limited."""
        self.consumers: list[Consumer] = []
        self.is_exclusively_consumed = False
        self.had_consumers = False
        self.is_deleted = False
        self.sources: dict[Partition, Source] = {}
        self.delivered = self.finished = 0
        self.used_s = 0.0
        self._lanes: list[deque[Entry]] = [deque() for _ in range(rules.priority_max + 1)]
        self._stretches: deque[Stretch] = deque()
        """What follows the entries of the lowest lane."""
        self._loaded = 0
        self._loaded_bytes = 0
        self._oldest_stamp = FOREVER
        self._position = 0
        self._turns = Turns(self.consumers, single_active=rules.single_active)
        self._expires = rules.message_ttl_ms is not None
        self._keeper = keeper
        self._is_pumping = False
        self.may_wait = False
        """Whether who is served just now can be served later."""

    @property
    def name(self) -> str:
        """Return its name within the virtual host."""
        return self.facts.name

    @property
    def is_full(self) -> bool:
        """Return whether the length limit is reached."""
        rules, coming = self.rules, self.announced
        return (rules.length_max is not None and self.ready + coming >= rules.length_max) or (
            rules.bytes_max is not None and self.ready_bytes >= rules.bytes_max
        )

    @property
    def oldest_stamp(self) -> int:
        """Return a stamp that no message of the queue is older than."""
        return self._oldest_stamp if self.ready or self.unacked else FOREVER

    @property
    def has_window(self) -> bool:
        """Return whether one more message may be kept in memory; with priorities all must be."""
        return self.rules.priority_max > 0 or (
            self._loaded < WINDOW_MESSAGES and self._loaded_bytes < WINDOW_BYTES
        )

    def window_for(self, bodies: Sequence[bytes]) -> int:
        """Return how many of these messages may be kept in memory, one after the other."""
        count, size = self._loaded + len(bodies), self._loaded_bytes + sum(map(len, bodies))
        if self.rules.priority_max > 0 or (count <= WINDOW_MESSAGES and size < WINDOW_BYTES):
            return len(bodies)
        fitting = bodies[: max(WINDOW_MESSAGES - self._loaded, 0)]
        before = list(accumulate(map(len, fitting), initial=self._loaded_bytes))
        return bisect_left(before, WINDOW_BYTES, hi=len(fitting))

    # Messages come.

    def arrived(self, size: int, stamp: int = 0, count: int = 1) -> None:
        """Count messages that lie in the log and are not looked at yet."""
        if stamp < self._oldest_stamp or not (self.ready or self.unacked):
            self._oldest_stamp = stamp
        self.ready += count
        self.ready_bytes += size
        if self.announced:
            self.announced = max(self.announced - count, 0)

    def forgotten(self, size: int) -> None:
        """Take a message out of the count that turned out to be done."""
        self.ready -= 1
        self.ready_bytes -= size

    def push(self, entry: Entry, published_ms: int) -> None:
        """Put a message that is counted in at the end."""
        properties = entry.envelope.properties
        self._position += 1
        entry.position = self._position
        if self._expires or properties.expiration is not None:
            self._set_expiry(entry, published_ms)
        if properties.priority and self.rules.priority_max:
            entry.priority = min(properties.priority, self.rules.priority_max)
        elif self._stretches:
            self._unfold(len(self._stretches))
        self._lanes[entry.priority].append(entry)
        self._loaded += 1
        self._loaded_bytes += entry.size

    def push_stretch(self, stretch: Stretch, published_ms: int) -> None:
        """Put messages that are counted and were published alike in at the end."""
        properties = stretch.envelope.properties
        has_priority = properties.priority and self.rules.priority_max
        if self._expires or properties.expiration is not None or has_priority:
            for entry in stretch.entries():
                self.push(entry, published_ms)
            return
        stretch.position = self._position + 1
        self._position += len(stretch)
        if not (self._stretches and self._stretches[-1].join(stretch)):
            self._stretches.append(stretch)
        self._loaded += len(stretch)
        self._loaded_bytes += sum(stretch.sizes)

    def _unfold(self, count: int) -> None:
        """Make entries of so many stretches."""
        for _ in range(count):
            self._lanes[0].extend(self._stretches.popleft().entries())

    def _set_expiry(self, entry: Entry, published_ms: int) -> None:
        own, all_ = entry.envelope.properties.expiration, self.rules.message_ttl_ms
        ttl_ms = min(
            int(own) if own is not None and own.isdigit() else 2**62,
            all_ if all_ is not None else 2**62,
        )
        if ttl_ms < 2**62:
            entry.expires_ms = max(published_ms + ttl_ms, 1)
            self._expires = True

    def settle_down(self) -> None:
        """Do what new messages call for: drop what is too much, deliver, watch the time."""
        rules = self.rules
        if rules.overflow == "drop-head" and (
            rules.length_max is not None or rules.bytes_max is not None
        ):
            self._drop_heads()
        self.pump()
        self.watch()

    def _drop_heads(self) -> None:
        rules = self.rules
        while (rules.length_max is not None and self.ready > rules.length_max) or (
            rules.bytes_max is not None and self.ready_bytes > rules.bytes_max
        ):
            entry = self._head()
            if entry is None:
                return
            self._pop(entry)
            self._die(entry, OVERFLOWED)

    # Messages go.

    def _has_any(self) -> bool:
        """Return whether a message is in memory; if none is, have some read from the log."""
        if self._loaded < self.ready and not self._loaded:
            self._keeper.refill(self)
        return self._loaded > 0

    def _head(self) -> Entry | None:
        return self._lane()[0] if self._has_any() else None

    def _lane(self) -> deque[Entry]:
        """Return where the next message is, as an entry."""
        for lane in reversed(self._lanes):
            if lane:
                return lane
        stretch, lane = self._stretches[0], self._lanes[0]
        if len(stretch) > UNFOLDED:
            lane.extend(stretch.take(UNFOLDED).entries())
        else:
            self._unfold(1)
        return lane

    def _pop(self, entry: Entry) -> None:
        self._lanes[entry.priority].popleft()
        self._loaded -= 1
        self._loaded_bytes -= entry.size
        self.ready -= 1
        self.ready_bytes -= entry.size

    def get(self) -> Entry | None:
        """Give the next message to somebody who asks; it counts as not acknowledged."""
        while (entry := self._head()) is not None:
            self._pop(entry)
            if self._is_fit(entry):
                self._deliver(entry)
                return entry
        self.watch()
        return None

    def pump(self, *, may_wait: bool = True) -> None:
        """Give messages to consumers as long as both are there.

        What only the disk has comes later, so that nobody else waits for it, unless it must not.
        """
        if self._is_pumping or not self.consumers:
            return
        self._is_pumping, self.may_wait = True, may_wait
        try:
            while self.ready and (consumer := self._turns.chosen()) is not None:
                if not self._has_any():
                    break
                self._give(consumer)
        finally:
            self._is_pumping = self.may_wait = False

    def _give(self, consumer: Consumer) -> None:
        """Give a consumer the next message, or many to all that take turns with it."""
        if consumer.in_bulk is not None and not any(self._lanes):
            circle, count = self._turns.dealt(self._stretches[0].sizes)
            if circle:
                self._give_stretch(circle, count)
                return
        is_alone = self._turns.is_alone
        lane = self._lane()
        while lane:
            entry = lane.popleft()
            size = entry.size
            self._loaded -= 1
            self._loaded_bytes -= size
            self.ready -= 1
            self.ready_bytes -= size
            if (entry.expires_ms or entry.body is None) and not self._is_fit(entry):
                continue
            self._deliver(entry)
            consumer.deliver(self, entry)
            if not is_alone or not consumer.has_room():
                return

    def _give_stretch(self, circle: list[BulkConsumer], count: int) -> None:
        """Give consumers so many messages that are alike in turns, each of them its own at once."""
        stretch = self._stretches[0]
        if count < len(stretch):
            stretch = stretch.take(count)
        else:
            self._stretches.popleft()
        size = sum(stretch.sizes)
        self._loaded -= count
        self._loaded_bytes -= size
        self.ready -= count
        self.ready_bytes -= size
        self.unacked += count
        self.delivered += count
        stretch.deliveries = 1
        stretch.source.tried_all(stretch.offsets)
        around = len(circle)
        if around == 1:
            circle[0].deliver_stretch(self, stretch)
            return
        for number, consumer in enumerate(circle):
            consumer.deliver_stretch(self, stretch.part(number, count, around))

    def _is_fit(self, entry: Entry) -> bool:
        if entry.expires_ms and entry.expires_ms <= self._keeper.now_ms():
            self._die(entry, EXPIRED)
            return False
        if entry.body is None:
            entry.body = self._keeper.load(entry)
            if entry.body is None:
                if entry.source.partition.is_absent:
                    self._keeper.fetch(self, entry)
                else:  # retention or an operator took it away
                    self.finish(entry, is_unacked=False)
                return False
        return True

    def _deliver(self, entry: Entry) -> None:
        entry.deliveries += 1
        entry.source.tried(entry.offset, entry.deliveries)
        self.unacked += 1
        self.delivered += 1

    # Messages are settled.

    def finish(self, entry: Entry, *, is_unacked: bool = True) -> None:
        """Take a message as done."""
        if is_unacked:
            self.unacked -= 1
        self.finished += 1
        source = entry.source
        source.finish(entry.offset)
        self._keeper.touched(self, source)

    def finish_all(self, entries: Sequence[Entry]) -> None:
        """Take messages as done that were delivered."""
        self.unacked -= len(entries)
        self.finished += len(entries)
        last: Source | None = None
        for entry in entries:
            source = entry.source
            source.finish(entry.offset)
            if source is not last:
                self._keeper.touched(self, source)
                last = source

    def finish_stretch(self, stretch: Stretch) -> None:
        """Take messages as done that were delivered together."""
        self.unacked -= len(stretch)
        self.finished += len(stretch)
        stretch.source.finish_all(stretch.offsets)
        self._keeper.touched(self, stretch.source)

    def requeue(self, entries: Iterable[Entry]) -> None:
        """Put messages back where they were, as far as others have not gone on."""
        limit = self.rules.delivery_limit
        for entry in sorted(entries, key=_position, reverse=True):
            self.unacked -= 1
            if limit is not None and entry.deliveries - entry.released > limit:
                self._die(entry, TRIED_TOO_OFTEN)
                continue
            self._put_back(entry)
            self._keeper.touched(self, entry.source)
        self.settle_down()

    def _put_back(self, entry: Entry) -> None:
        lane = self._lanes[entry.priority]
        place = 0
        while place < len(lane) and lane[place].position < entry.position:
            place += 1
        lane.insert(place, entry)
        self._loaded += 1
        self._loaded_bytes += entry.size
        self.ready += 1
        self.ready_bytes += entry.size

    def reject(self, entry: Entry) -> None:
        """Give a message up because a consumer cannot process it."""
        self.unacked -= 1
        self._die(entry, REJECTED)

    def _die(self, entry: Entry, reason: str) -> None:
        """Finish a message that nobody has processed; its dead letter goes first."""
        if self.rules.dead_letter_exchange is None:
            self.finish(entry, is_unacked=False)
        else:
            self._keeper.bury(self, entry, reason)

    def restore(self, entry: Entry) -> None:
        """Put a message back that could not be dead-lettered, or was read from another node."""
        self._put_back(entry)

    def expire(self) -> None:
        """Give up messages at the head whose time is over."""
        now_ms = self._keeper.now_ms()
        for lane in self._lanes:
            while lane and lane[0].expires_ms and lane[0].expires_ms <= now_ms:
                entry = lane[0]
                self._pop(entry)
                self._die(entry, EXPIRED)
        if self.ready and not self._loaded:
            self._keeper.refill(self)
        self.watch()

    def watch(self) -> None:
        """Have `expire` called when the first message's time is over."""
        if self._expires:
            heads = [lane[0].expires_ms for lane in self._lanes if lane and lane[0].expires_ms]
            if heads:
                self._keeper.due(self, min(heads))

    def purge(self) -> int:
        """Take all that waits as done; return how many messages that were."""
        count, finished = self.ready, self.finished
        self._unfold(len(self._stretches))
        for lane in self._lanes:
            for entry in lane:
                self.finish(entry, is_unacked=False)
            lane.clear()
        self.finished = finished + count
        self.ready = self.ready_bytes = self._loaded = self._loaded_bytes = 0
        for source in self.sources.values():
            source.skip_to(self._keeper.routed(source.partition))
            self._keeper.touched(self, source)
        return count

    def drop_source(self, source: Source) -> None:
        """Forget messages of a topic that was deleted."""
        self._unfold(len(self._stretches))
        for number, lane in enumerate(self._lanes):
            self._lanes[number] = deque(entry for entry in lane if entry.source is not source)
        self._loaded = sum(map(len, self._lanes))
        self._loaded_bytes = sum(entry.size for lane in self._lanes for entry in lane)
        if all(one is source or not one.is_behind for one in self.sources.values()):
            self.ready, self.ready_bytes = self._loaded, self._loaded_bytes
        self.sources.pop(source.partition, None)

    # Consumers come and go.

    def add_consumer(self, consumer: Consumer) -> None:
        """Let somebody have messages, after those of a higher priority."""
        place = len(self.consumers)
        if not self.rules.single_active:
            while place and self.consumers[place - 1].priority < consumer.priority:
                place -= 1
        self.consumers.insert(place, consumer)
        self.had_consumers = True

    def remove_consumer(self, consumer: Consumer) -> None:
        """Give somebody no more messages."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.is_exclusively_consumed = False


def _position(entry: Entry) -> int:
    return entry.position

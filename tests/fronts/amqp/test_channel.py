"""Channels whose consumers share a queue, without connections around them and with clients."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from chordmq.broker.queues import follower as following
from chordmq.broker.queues import queue as machine
from chordmq.broker.queues import turns
from chordmq.broker.queues.follower import Follower
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.source import Source
from chordmq.codecs.amqp.content import read_properties
from chordmq.codecs.amqp.frames import Settle
from chordmq.fronts.amqp.channel import Channel, ChannelConsumer
from tests.broker.queues.shelf import Shelved
from tests.fronts.amqp.client import Worker, connected, publish_together, wait_for
from tests.running_node import RunningNode

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"dead_letter_exchange": "x"},
    {"queue_type": "quorum", "delivery_limit": 2, "dead_letter_exchange": "x"},
    {"max_length": 9},
    {"single_active_consumer": True},
    {"message_ttl": 50, "dead_letter_exchange": "x"},
    {"max_priority": 2},
)
SIZES = (0, 1, 1, 2, 8)
PROPERTIES = [
    read_properties(commands.Basic.Properties(**properties).marshal())
    for properties in (
        {},
        {"content_type": "text/plain"},
        {"headers": {"colour": "red"}},
        {"expiration": "20"},
        {"priority": 1},
    )
]


class Client:
    """A connection that keeps what goes out on each channel, and takes so much in one turn."""

    frame_max = 4096
    number = "1"

    def __init__(self, write_bytes: int) -> None:
        self.write_bytes = write_bytes
        self.sent: dict[int, list[Any]] = {}
        self.thirsty: dict[Queue, None] = {}
        self.out_bytes = 0
        self.front = SimpleNamespace(
            settings=SimpleNamespace(unacknowledged_max=30),
            messages_out=0,
            queues=SimpleNamespace(leave=Queue.remove_consumer),
            replies={},
        )
        self.reader = SimpleNamespace(forget=lambda number: None)
        self.channels = [Channel(cast(Any, self), number) for number in (1, 2)]

    @property
    def has_room(self) -> bool:
        return self.out_bytes < self.write_bytes

    def room_for(self, sizes: Sequence[int]) -> int:
        before = [sum(sizes[:number]) for number in range(len(sizes))]
        return sum(self.out_bytes + size < self.write_bytes for size in before)

    def send(self, data: bytes) -> None:
        while data:
            size, channel, found = frame.unmarshal(data)
            data = data[size:]
            if isinstance(found, commands.Basic.Deliver):
                event = (found.consumer_tag, found.delivery_tag, found.redelivered)
                self.sent.setdefault(channel, []).append(event)
            elif isinstance(found, header.ContentHeader):
                self.sent[channel].append(dict(found.properties))
            elif isinstance(found, body.ContentBody):
                self.sent[channel].append(found.value)
                self.out_bytes += len(found.value or b"")

    def quench(self) -> None:
        thirsty, self.thirsty = self.thirsty, {}
        for queue in thirsty:
            queue.pump()


class Roomy(Queue):
    """A queue that keeps all its messages in memory."""

    has_window = True

    def window_for(self, bodies: Sequence[bytes]) -> int:
        return len(bodies)


class World:
    """A queue and clients that share it.

    Messages are read and delivered in bulk, and most of them from the log; or all one by one, while
    they are in memory.
    """

    def __init__(self, arguments: dict[str, Any], write_bytes: int, *, in_bulk: bool) -> None:
        self.keeper = Shelved(Queue if in_bulk else Roomy, arguments)
        self.queue = self.keeper.queue
        self.clients = [Client(write_bytes) for _ in range(2)]
        self.in_bulk = in_bulk

    def channel(self, number: int) -> Channel:
        return self.clients[number % 2].channels[number // 2]

    def join(self, number: int, tag: str, limit: int, priority: int, no_ack: bool) -> None:
        channel = self.channel(number)
        channel.limit_of_consumers = limit
        consumer = ChannelConsumer(channel, tag, self.queue, no_ack=no_ack, priority=priority)
        if not self.in_bulk:
            consumer.in_bulk = cast(Any, None)
        channel.consumers[tag] = consumer
        self.queue.add_consumer(consumer)
        self.queue.pump()

    def limit(self, number: int, count: int) -> None:
        self.channel(number).limit = count

    def fill(self, kind: int, *sizes: int) -> None:
        numbered = enumerate(sizes, self.keeper.shelf.end)
        texts = [str(number).ljust(size, ".") if size else "" for number, size in numbered]
        values = [text.encode() for text in texts]
        for batch in [values] if self.in_bulk else [[value] for value in values]:
            self.keeper.publish(PROPERTIES[kind], batch)
        self.keeper.hand_out()

    def wait(self, ms: int) -> None:
        keeper = self.keeper
        keeper.clock.advance(ms)
        keeper.alarms.append(keeper.now_ms())
        while keeper.alarms and keeper.alarms[-1] <= keeper.now_ms():
            keeper.alarms.clear()
            self.queue.expire()

    def settle(self, number: int, tag: int, multiple: bool, is_done: bool, requeue: bool) -> None:
        self.channel(number).settle(Settle(0, tag, multiple, is_done, requeue))
        self.clients[number % 2].quench()

    def flush(self, number: int) -> None:
        self.clients[number % 2].out_bytes = 0
        self.queue.pump()

    def cancel(self, number: int, tag: str) -> None:
        self.channel(number).cancel(tag)

    def recover(self, number: int) -> None:
        self.channel(number).recover()

    def purge(self) -> None:
        self.queue.purge()

    @property
    def state(self) -> Any:
        """Return all that clients and the log can see."""
        queue = self.queue
        counts = (queue.ready, queue.ready_bytes, queue.unacked, queue.delivered, queue.finished)
        sent = [client.sent for client in self.clients]
        held = [
            [(tag, one.unacked) for tag, one in sorted(channel.consumers.items())]
            for client in self.clients
            for channel in client.channels
        ]
        stored = self.keeper.source.stored()
        again = Source(self.keeper.partition, *stored)
        left = [again.take(offset) for offset in range(stored[0], self.keeper.shelf.end)]
        return counts, sent, held, stored, left, self.keeper.dead


def unsettled(channel: Channel) -> list[int]:
    """Return the tags of what the client has got and not settled."""
    return [tag for tag in range(1, channel.tag + 1) if tag in channel.unacked]


CHANNELS = st.integers(0, 3)
TAGS = st.sampled_from("abcd")
JOINS = st.tuples(
    st.just("join"),
    CHANNELS,
    TAGS,
    st.sampled_from((0, 1, 2, 3, 10)),
    st.sampled_from((0, 0, 0, 0, 1)),
    st.sampled_from((False, False, False, True)),
)
FILLS = st.tuples(
    st.sampled_from((0, 0, 0, *range(len(PROPERTIES)))),
    st.lists(st.sampled_from(SIZES), min_size=1, max_size=15),
).map(lambda found: ("fill", found[0], *found[1]))
SETTLES = st.tuples(
    st.just("settle"), CHANNELS, st.floats(0, 1), st.booleans(), st.booleans(), st.booleans()
)
"""The message is drawn as a part of those that are not settled."""
FLUSHES = st.tuples(st.just("flush"), CHANNELS)
OTHERS = st.one_of(
    st.tuples(st.just("cancel"), CHANNELS, TAGS),
    st.tuples(st.just("recover"), CHANNELS),
    st.tuples(st.just("limit"), CHANNELS, st.just(3)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("wait"), st.sampled_from((10, 30))),
    JOINS,
)
STEPS = st.one_of(FILLS, FILLS, SETTLES, SETTLES, FLUSHES, OTHERS)


def compare(arguments: dict[str, Any], write_bytes: int, steps: list[Any]) -> None:
    """Take the same steps in both worlds."""
    together = World(arguments, write_bytes, in_bulk=True)
    each = World(arguments, write_bytes, in_bulk=False)
    for kind, *values in steps:
        chosen = values
        if kind == "settle":
            tags = unsettled(together.channel(values[0]))
            if not tags:
                continue
            tag = tags[round(values[1] * (len(tags) - 1))]
            chosen = [values[0], tag, *values[2:]]
        if kind == "join" and values[1] in together.channel(values[0]).consumers:
            continue
        for world in (together, each):
            getattr(world, kind)(*chosen)
        assert together.state == each.state


@settings(max_examples=300)
@given(
    st.sampled_from(KINDS),
    st.sampled_from((40, 400)),
    st.tuples(st.integers(1, 3), st.sampled_from((1, 7, 25, 4096)), st.sampled_from((9, 4096))),
    st.tuples(st.lists(FILLS, max_size=4), st.lists(JOINS, min_size=2, max_size=5)),
    st.lists(STEPS, max_size=30),
)
def test_consumers_get_together_exactly_what_they_get_one_by_one(
    arguments: dict[str, Any],
    write_bytes: int,
    limits: tuple[int, int, int],
    begin: tuple[list[Any], list[Any]],
    steps: list[Any],
) -> None:
    """A3, E4: who gets which message, in which order on each channel, and what is stored of it.

    Whether messages are fresh or come from the log, which has those that were there before the
    consumers, and those for which memory has no room.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "FEW", limits[0])
        patch.setattr(machine, "UNFOLDED", 5)
        patch.setattr(machine, "WINDOW_MESSAGES", limits[1])
        patch.setattr(machine, "WINDOW_BYTES", limits[2])
        patch.setattr(following, "REFILL_BYTES", 200)
        patch.setattr(Follower, "wake", lambda self: None)  # without an event loop
        compare(arguments, write_bytes, [*begin[0], *begin[1], *steps])


def test_workers_take_turns_and_the_others_get_what_one_leaves_behind(
    node: RunningNode, name: str
) -> None:
    """A3: each message goes to one of them, and again to another when its connection ends."""
    with connected(node) as channel, connected(node) as one, connected(node) as two:
        channel.queue_declare(name)
        workers = [Worker(one, name, 200), Worker(two, name, 200)]
        with connected(node) as third:
            workers.append(Worker(third, name, 50))
            publish_together(channel, name, 300)
            for number, worker in enumerate(workers):
                worker.wait_for((125, 125, 50)[number])
                assert worker.bodies[:50] == [str(n) for n in range(number, 150, 3)]
            for number, worker in enumerate(workers[:2]):
                assert worker.bodies[50:] == [str(n) for n in range(150 + number, 300, 2)]
            third.basic_ack(workers[2].tags[9], multiple=True)
            third.basic_ack(workers[2].tags[20])
        again = [*workers[2].bodies[10:20], *workers[2].bodies[21:]]
        for number, worker in enumerate(workers[:2]):
            worker.wait_for(125 + (20, 19)[number])
            found = worker.bodies[125:]
            assert set(worker.flags[125:]) == {True}
            assert found == again[number::2]
            worker.channel.basic_ack(0, multiple=True)
        wait_for(channel, name, 0)

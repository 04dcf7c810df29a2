"""E4, A5: what a queue has confirmed outlives kill -9 of the node, exactly as it was routed."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker

from tests.fronts.amqp.client import (
    TIMEOUT_S,
    Worker,
    connected,
    count,
    publish,
    publish_together,
    take,
    wait_for,
    wait_until_stored,
)
from tests.running_node import RunningNode


def test_confirmed_messages_outlive_a_crash_in_all_queues_they_were_routed_to(
    own_node: RunningNode,
) -> None:
    """E4: fan-out stores a message once; each queue gets its own after a crash."""
    with connected(own_node) as channel:
        channel.confirm_delivery()
        channel.exchange_declare("news", "topic", durable=True)
        for queue, pattern in (("all", "#"), ("sport", "*.sport"), ("gone", "#")):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "news", pattern)
        for number in range(40):
            publish(channel, "news", "de.sport" if number % 4 == 0 else "de.rest", str(number))
        channel.queue_unbind("gone", "news", "#")
        channel.queue_bind("sport", "news", "late.#")
        publish(channel, "news", "late.news", "after")
        assert len(take(channel, "all", 10)) == 10
        publish(channel, "", "all", "straight")
        wait_until_stored(own_node)
    own_node.restart()
    with connected(own_node) as channel:
        wait_for(channel, "all", 32)
        found = [body for body, _ in take(channel, "all", 32)]
        assert sorted(found) == sorted([*map(str, range(10, 40)), "after", "straight"])
        assert [one for one in found if one.isdigit()] == [str(n) for n in range(10, 40)]
        sport = [str(number) for number in range(0, 40, 4)]
        assert [body for body, _ in take(channel, "sport", 11)] == [*sport, "after"]
        assert [body for body, _ in take(channel, "gone", 40)] == [*map(str, range(40))]
        assert [count(channel, queue) for queue in ("all", "sport", "gone")] == [0, 0, 0]


def test_what_was_delivered_and_not_acknowledged_comes_again_as_redelivered(
    own_node: RunningNode,
) -> None:
    """A5: a consumer that was away misses nothing; what was acknowledged does not come again."""
    with connected(own_node) as channel:
        channel.confirm_delivery()
        channel.queue_declare("work", durable=True)
        publish(channel, "", "work", *map(str, range(10)))
        held = [channel.basic_get("work")[0].delivery_tag for _ in range(6)]
        for tag in (held[0], held[2], held[3]):
            channel.basic_ack(tag)
        assert count(channel, "work") == 4
        wait_until_stored(own_node)
        own_node.kill9()
    own_node.start()
    with connected(own_node) as channel:
        wait_for(channel, "work", 7)
        found = take(channel, "work", 7)
        assert [body for body, _ in found] == ["1", "4", "5", "6", "7", "8", "9"]
        assert [flag for _, flag in found] == [True, True, True, False, False, False, False]


def test_what_workers_that_share_a_queue_have_not_settled_comes_again(
    own_node: RunningNode,
) -> None:
    """A5: each has settled other messages of those that came together."""
    with connected(own_node) as channel, ExitStack() as stack:
        channel.queue_declare("work", durable=True)
        workers = [Worker(stack.enter_context(connected(own_node)), "work", 20) for _ in range(3)]
        publish_together(channel, "work", 60)
        for worker in workers:
            worker.wait_for(20)
        first, second, third = workers
        first.channel.basic_ack(first.tags[14], multiple=True)
        for place in (2, 7, 19):
            second.channel.basic_ack(second.tags[place])
        third.channel.basic_nack(third.tags[4], multiple=True, requeue=False)
        for worker in workers:
            worker.channel.queue_declare("work", passive=True)  # all before it is done then
        wait_until_stored(own_node)
        own_node.kill9()
    own_node.start()
    done = {*first.bodies[:15], *(second.bodies[place] for place in (2, 7, 19)), *third.bodies[:5]}
    with connected(own_node) as channel:
        wait_for(channel, "work", 37)
        left = [str(number) for number in range(60) if str(number) not in done]
        assert take(channel, "work", 37) == [(body, True) for body in left]


def produce(node: RunningNode, confirmed: set[int]) -> None:
    """Publish until the node is gone, and note what it has confirmed."""
    with suppress(AMQPError), connected(node) as channel:
        channel.confirm_delivery()
        for number in range(100_000):
            publish(channel, "load", "", str(number))
            confirmed.add(number)


def consume(node: RunningNode, consumed: set[int]) -> None:
    """Consume until the node is gone."""
    with suppress(AMQPError), connected(node) as channel:
        channel.basic_qos(prefetch_count=10)
        for method, _, body in channel.consume("one"):
            consumed.add(int(body))
            channel.basic_ack(method.delivery_tag)


def is_left(node: RunningNode, queue: str, wanted: set[int]) -> bool:
    """Return whether all of these are in a queue, some of which it may have to read first."""
    missing = set(wanted)
    deadline = time.monotonic() + TIMEOUT_S
    with connected(node) as channel:
        while missing and time.monotonic() < deadline:
            body = channel.basic_get(queue, auto_ack=True)[2]
            if body is not None:
                missing.discard(int(body))
    return not missing


def test_no_confirmed_message_is_lost_when_the_node_is_killed_under_load(
    own_node: RunningNode,
) -> None:
    """E4: publisher confirms mean that the message is in the log."""
    with connected(own_node) as channel:
        channel.exchange_declare("load", "fanout", durable=True)
        for queue in ("one", "two"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "load")
    confirmed: set[int] = set()
    consumed: set[int] = set()
    with ThreadPoolExecutor() as workers:
        workers.submit(produce, own_node, confirmed)
        workers.submit(consume, own_node, consumed)
        deadline = time.monotonic() + 60
        while len(confirmed) < 300 or len(consumed) < 100:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        own_node.kill9()
    own_node.start()
    assert is_left(own_node, "one", confirmed - consumed)
    assert is_left(own_node, "two", confirmed)


def test_definitions_come_back_and_what_is_not_durable_does_not(own_node: RunningNode) -> None:
    """E4: durable exchanges, queues and bindings outlive a restart; others go."""
    with connected(own_node) as channel:
        channel.exchange_declare("kept", "direct", durable=True)
        channel.exchange_declare("temporary", "direct")
        channel.queue_declare("kept", durable=True, arguments={"x-max-length": 3})
        channel.queue_declare("temporary")
        channel.queue_declare("own", durable=True, exclusive=True)
        channel.queue_bind("kept", "kept", "k")
        own_node.restart()
    with connected(own_node) as channel:
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True, arguments={"x-max-length": 3})
        publish(channel, "kept", "k", *"abcde")
        assert [body for body, _ in take(channel, "kept", 3)] == ["c", "d", "e"]
    for queue in ("temporary", "own"):
        with connected(own_node) as channel, pytest.raises(ChannelClosedByBroker, match="404"):
            channel.queue_declare(queue, passive=True)
    with connected(own_node) as channel, pytest.raises(ChannelClosedByBroker, match="404"):
        channel.exchange_declare("temporary", passive=True)

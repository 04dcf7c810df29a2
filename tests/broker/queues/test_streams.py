"""Streams on a real broker: what is told to them, and what exchanges lead to them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.feed import Feed
from chordmq.broker.queues.exchanges import Binding, Exchange
from chordmq.broker.queues.queue import QueueFacts
from chordmq.broker.queues.streams import REFUSED, Stream, age_ms, topic_settings
from chordmq.codecs.amqp.content import Envelope, new_properties
from chordmq.errors import InvalidRequest
from chordmq.records.record import NewRecord
from tests.broker.queues.test_queues import running

FACTS = QueueFacts(vhost="/", name="s", durable=True, arguments={"x-queue-type": "stream"})


def test_limits_of_a_stream_are_those_of_its_topic() -> None:
    """E4: age and size, as RabbitMQ writes them."""
    arguments = {
        "x-queue-type": "stream",
        "x-max-age": "7D",
        "x-max-length-bytes": 5000,
        "x-stream-max-segment-size-bytes": 2_000_000,
    }
    assert topic_settings(arguments) == {
        "retention.ms": str(7 * 24 * 3_600_000),
        "retention.bytes": "5000",
        "segment.bytes": "2000000",
    }
    kept = {"retention.ms": "-1", "retention.bytes": "-1"}
    assert topic_settings({}) == kept, "all is kept if nothing is said"
    assert [age_ms("x", text) for text in ("2s", "3m", "1h", "1M", "1Y")] == [
        2000, 180_000, 3_600_000, 2_592_000_000, 31_536_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong", [{"x-max-age": "h"}, {"x-max-age": 5}, {"x-max-length-bytes": -1}, {"x-max-age": "1x"}]
)
def test_a_limit_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        topic_settings(wrong)


async def test_what_makes_no_sense_for_a_stream_is_refused(tmp_path: Path) -> None:
    """E4: nothing that is promised of other queues is silently left out."""
    async with running(tmp_path) as broker:
        queues = broker.queues
        wrong = [replace(FACTS, durable=False), replace(FACTS, exclusive=True)]
        wrong.append(replace(FACTS, auto_delete=True))
        wrong += [replace(FACTS, arguments={**FACTS.arguments, name: 1}) for name in REFUSED]
        for facts in wrong:
            with pytest.raises(InvalidRequest):
                await queues.declare_queue(queues.vhosts["/"], facts, None)
        assert list(queues) == []
        stream = await queues.declare_queue(queues.vhosts["/"], FACTS, None)
        for act in (stream.get, stream.purge):
            with pytest.raises(InvalidRequest):
                act()


def record_values(broker: Broker) -> list[bytes | None]:
    """Return what lies in the stream's topic."""
    topic = broker.topics.get("s")
    feed = Feed(dict(enumerate(topic.partitions)), {})
    return [one.record.value for one in feed.take(1000, 1 << 20)]


async def until_copied(broker: Broker, count: int) -> None:
    """Wait until so many messages lie in the stream, and none waits to get there."""
    stream = broker.queues.vhosts["/"].queue("s")
    async with asyncio.timeout(60):
        while len(record_values(broker)) < count or stream.ready or stream.unacked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_stream_has_what_is_sent_to_it_and_what_exchanges_lead_to_it(
    tmp_path: Path,
) -> None:
    """E4: each message once, in the order of its exchange, also after a restart."""
    async with running(tmp_path) as broker:
        queues, vhost = broker.queues, broker.queues.vhosts["/"]
        assert isinstance(await queues.declare_queue(vhost, FACTS, None), Stream)
        await queues.declare_exchange(vhost, Exchange(name="e", type="topic", durable=True))
        way = Binding(source="e", destination="s", to_queue=True, key="a.#", arguments={})
        await queues.bind(vhost, way)
        for number in range(3):
            envelope = Envelope("/", "", "s", new_properties({}, 0))
            await queues.publishing.publish(vhost, envelope, b"sent %d" % number)
        await broker.append_records("s", 0, [NewRecord(1, b"k", b"of another front")])
        for number in range(5):
            for key in ("a.b", "other"):
                envelope = Envelope("/", "e", key, new_properties({}, 0))
                await queues.publishing.publish(vhost, envelope, b"%s %d" % (key.encode(), number))
        await until_copied(broker, 9)
        await queues.settle()
        wanted = [b"sent %d" % number for number in range(3)] + [b"of another front"]
        wanted += [b"a.b %d" % number for number in range(5)]
        assert record_values(broker) == wanted
    async with running(tmp_path) as broker:
        queues, vhost = broker.queues, broker.queues.vhosts["/"]
        envelope = Envelope("/", "e", "a", new_properties({}, 0))
        await queues.publishing.publish(vhost, envelope, b"after")
        await until_copied(broker, 10)
        assert record_values(broker) == [*wanted, b"after"]
        await queues.trim()
        assert len(record_values(broker)) == 10, "what was handed out stays in a stream"
        await queues.delete_queue(vhost.queue("s"))
        assert broker.topics.find("s") is None

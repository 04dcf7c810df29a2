"""Load from confluent-kafka (librdkafka): the client that most services outside Java use."""

import gc
import multiprocessing
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.sockets import Rate

CHUNK = 2000
"""Messages handed to librdkafka in one call."""
QUEUE_MESSAGES = 200_000
IDLE_LIMIT_S = 20.0
ARRIVAL_LIMIT_S = 120.0
"""For the last message of a latency: on a busy machine a broker may lag, which the numbers show."""
PRODUCER = {
    "linger.ms": 5,
    "batch.size": 131_072,
    "queue.buffering.max.messages": QUEUE_MESSAGES,
    "queue.buffering.max.kbytes": 262_144,
    "compression.type": "none",
    "delivery.report.only.error": True,
}
ACKS = {
    "acks1": {"acks": "1", "enable.idempotence": "false"},
    "acksall": {"acks": "all", "enable.idempotence": "true"},
}


class LoadFailed(Exception):
    """A client could not deliver, or did not get what was there."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The time from produce to arrival, in milliseconds: mean and percentiles."""

    mean: float
    p50: float
    p99: float
    p999: float

    @classmethod
    def of(cls, samples_ms: list[float]) -> "Latencies":
        """Return the percentiles of the samples."""
        ordered = sorted(samples_ms)
        shares = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99, 0.999))
        return cls(sum(ordered) / len(ordered), *shares)


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    settings: dict[str, str],
    login: dict[str, str] | None = None,
    copies: int = 1,
) -> None:
    """Create a topic and wait until all its partitions have a leader and all copies are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **(login or {})})
    new = NewTopic(name, num_partitions=partitions, replication_factor=copies, config=settings)
    admin.create_topics([new], request_timeout=60)[name].result()
    _await_copies(admin, name, partitions, copies)


def await_copies(bootstrap: str, topic: str, copies: int) -> None:
    """Wait until all copies of a topic with one partition are in sync."""
    _await_copies(AdminClient({"bootstrap.servers": bootstrap}), topic, 1, copies)


def _await_copies(admin: AdminClient, name: str, partitions: int, copies: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        topic = admin.list_topics(name, timeout=30).topics[name]
        found = topic.partitions.values()
        led = [part for part in found if part.leader >= 0 and len(part.isrs) == copies]
        if topic.error is None and len(led) == partitions:
            return
        time.sleep(0.05)
    raise LoadFailed(f"topic {name} has no leaders after 60 s, or not {copies} copies")


def produce(
    bootstrap: str, topic: str, size: int, settings: dict[str, str], limit: tuple[float, int]
) -> Rate:
    """Produce values of `size` bytes until `limit` (seconds, messages) and wait for all answers.

    The clock runs from the first one's answer on: how long a client takes to find the broker and
    the topic is not what is measured. An idempotent one also gets its number, which it asks for by
    a timer of half a second if no connection is there when it first looks.
    """
    seconds, count_max = limit
    failed: list[KafkaError] = []
    config = {"bootstrap.servers": bootstrap, **PRODUCER, **settings}
    producer = Producer(config)
    value = bytes(index * 31 % 251 for index in range(size))
    chunk = [{"value": value} for _ in range(CHUNK)]
    producer.list_topics(topic, timeout=30)
    producer.produce(topic, value, on_delivery=_note_failure(failed))
    producer.flush(60)
    started = time.perf_counter()
    sent = 1 + producer.produce_batch(topic, chunk[1:], on_delivery=_note_failure(failed))
    while sent < count_max and time.perf_counter() - started < seconds:
        if len(producer) > QUEUE_MESSAGES - CHUNK:
            producer.poll(0.005)
            continue
        sent += producer.produce_batch(topic, chunk, on_delivery=_note_failure(failed))
        producer.poll(0)
    left = producer.flush(60)
    taken = time.perf_counter() - started
    if left or failed:
        raise LoadFailed(f"{left} messages not delivered, {len(failed)} refused {failed[:1]}")
    return Rate(sent, taken, sent * size, before=1)


@contextmanager
def uncollected() -> Iterator[None]:
    """Have the interpreter not look for unused objects, of which a client makes none.

    Else it looks at all of this program's again and again, for each ten thousand messages: that
    took three quarters of a consumer's time.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> Rate:
    """Read `count` messages from the start of a topic; the clock runs from the first ones on.

    How long a client takes to find the broker and its topics is not what is measured.
    """
    consumer = Consumer(consumer_settings(bootstrap))
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    got = size = began = 0
    started = heard = time.perf_counter()
    with uncollected():
        while got < count:
            messages = consumer.consume(10_000, timeout=0.2)
            now = time.perf_counter()
            if messages:
                heard = now
            elif now - heard > IDLE_LIMIT_S:
                raise LoadFailed(f"only {got} of {count} messages came")
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                size += len(message)
            got += len(messages)
            if not began:
                started, began = now, got
        taken = time.perf_counter() - started
    consumer.close()
    return Rate(got, taken, size, began)


def latencies(bootstrap: str, topic: str, rate: int, seconds: float, acks: str = "1") -> Latencies:
    """Produce at a fixed rate and measure, in another process, when each message arrives."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    count = int(rate * seconds)
    reader = spawn.Process(target=_receive, args=(bootstrap, topic, count, theirs))
    reader.start()
    try:
        if not ours.poll(60):
            raise LoadFailed("the consumer did not get ready")
        ours.recv()
        _produce_at(bootstrap, topic, rate, count, acks)
        if not ours.poll(ARRIVAL_LIMIT_S):
            raise LoadFailed(f"not all of {count} messages arrived")
        samples: list[float] = ours.recv()
    finally:
        reader.kill()
        reader.join()
    return Latencies.of(samples[rate:])  # the first second warms both clients up


def _produce_at(bootstrap: str, topic: str, rate: int, count: int, acks: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": acks})
    padding = bytes(92)
    start = time.perf_counter()
    for index in range(count):
        due = start + index / rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        # From the moment it was due: a stall must not hide the messages it delayed.
        producer.produce(topic, struct.pack(">d", due) + padding)
        producer.poll(0)
    producer.flush(30)


def _receive(bootstrap: str, topic: str, count: int, report: Connection) -> None:
    """Collect latencies; the clock is the machine's monotonic one, the same in every process."""
    consumer = Consumer(consumer_settings(bootstrap))
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.5)
    report.send("ready")
    samples: list[float] = []
    while len(samples) < count:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        (due,) = struct.unpack_from(">d", message.value() or b"")
        samples.append((time.perf_counter() - due) * 1000)
    report.send(samples)
    consumer.close()


def consumer_settings(bootstrap: str) -> dict[str, str | int | bool]:
    """Return what a consumer has to be told that is to be as fast as it can."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{time.monotonic_ns()}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # librdkafka sleeps a second when its queue is full: the faster broker would lose.
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 262_144,
        "fetch.queue.backoff.ms": 1,
    }


def _note_failure(failed: list[KafkaError]) -> Callable[[KafkaError | None, object], None]:
    def note(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    return note

"""The cases: each loads a running broker in one way and says what came of it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from benchmarks import java_tools, load, sockets
from benchmarks.amqp import amqp
from benchmarks.cdc import cdc
from benchmarks.ceilings import ceilings
from benchmarks.connected import connected
from benchmarks.iot_chain import iot_chain
from benchmarks.mqtt import mqtt
from benchmarks.pushed import framed, provider
from benchmarks.rpc import capnp_front, grpc_front
from benchmarks.session import Meter, Sample, Session, rate_samples
from benchmarks.shadow import shadow
from benchmarks.sockets import Rate
from benchmarks.streams import streams
from benchmarks.usage import usage_of
from benchmarks.websocket import websocket

IDLE_S = 3.0
RATE_PER_S = 1000
JAVA_MESSAGES_PER_S = 2000
"""About what EndToEndLatency sends when it has warmed up."""
WARM_UP_READS = 4
BATCH_BYTES = 131_072
ONE_CONNECTION_WINDOW = 64
STEP_S = 1.5
"""Seconds at each point of a curve."""


@dataclass(frozen=True, slots=True)
class Case:
    """A named measurement."""

    name: str
    about: str
    run: Callable[[Session], list[Sample]]


def command(name: str) -> str:
    """Return the command that repeats one case."""
    return f"python -m benchmarks --case {name}"


def start(session: Session) -> list[Sample]:
    """Report how long the broker took until it answered Metadata, on an empty data directory."""
    used = usage_of(session.peer.pid)
    ready = session.peer.ready_s
    return [Sample("start", ready, "s", used.cpu_s, used.rss_mb, command("start"), goal="start")]


def idle(session: Session) -> list[Sample]:
    """Measure memory and processor time while nobody asks for anything."""
    with session.metered() as meter:
        time.sleep(IDLE_S)
    cost = (meter.cpu_s, meter.rss_mb, command("idle"))
    return [
        Sample("idle.rss", meter.rss_mb, "MB", *cost, goal="memory"),
        Sample("idle.cpu", meter.cpu_s / IDLE_S * 100, "% of a core", *cost),
    ]


def warm_up(session: Session) -> list[Sample]:
    """Let the Java machine compile its hot paths before anything counts."""
    topic = session.topic()
    for settings in load.ACKS.values():
        load.produce(session.bootstrap, topic, 100, settings, (2.0, 1_500_000))
    sockets.produce_pipelined(session.bootstrap, topic, (1000, 100), (1.0, 1000))
    sockets.produce_in_turn(session.bootstrap, topic, 10, 1.0)
    for _ in range(WARM_UP_READS):
        sockets.count_records(session.bootstrap, topic, 1)
    load.consume(session.bootstrap, topic, 1, sockets.end_offset(session.bootstrap, topic) // 4)
    return []


def produce(size: int, acks: str, durability: str, session: Session) -> list[Sample]:
    """Produce through librdkafka."""
    name = f"produce_{_size(size)}_{acks}_{durability}"
    topic = session.topic(durability=durability)
    limit = (session.profile.produce_s, session.profile.bytes_max // size)
    with session.metered() as meter:
        rate = load.produce(session.bootstrap, topic, size, load.ACKS[acks], limit)
    session.expect(topic, 1, rate.count)
    session.written[name] = (topic, rate.count)
    return rate_samples(name, rate, meter, command(name))


def produce_java(size: int, acks: str, session: Session) -> list[Sample]:
    """Produce with Kafka's ProducerPerformance."""
    name = f"produce_java_{_size(size)}_{acks}_os"
    topic = session.topic()
    count = session.profile.java_bytes // size
    settings = {**load.ACKS[acks], **java_tools.PRODUCER}
    with session.metered() as meter:
        done = java_tools.producer_performance(session.bootstrap, topic, size, settings, count)
    session.expect(topic, 1, count)
    session.written[name] = (topic, count)
    return rate_samples(name, done.rate, meter, done.command)


def produce_socket(size: int, session: Session) -> list[Sample]:
    """Produce prebuilt batches of 128 KiB on one connection: what the broker alone can take."""
    name = f"produce_socket_{_size(size)}_acks1_os"
    topic = session.topic()
    batch = (BATCH_BYTES // (size + 10), size)
    limit = (session.profile.produce_s, session.profile.bytes_max // BATCH_BYTES)
    with session.metered() as meter:
        rate = sockets.produce_pipelined(session.bootstrap, topic, batch, limit)
    session.expect(topic, 1, rate.count)
    session.written[name] = (topic, rate.count)
    return rate_samples(name, rate, meter, command(name))


def produce_partitions(partitions: int, session: Session) -> list[Sample]:
    """Produce 100-byte messages over a number of partitions."""
    name = f"partitions_{partitions}"
    topic = session.topic(partitions)
    limit = (session.profile.produce_s * 0.8, session.profile.bytes_max // 100)
    with session.metered() as meter:
        rate = load.produce(session.bootstrap, topic, 100, load.ACKS["acks1"], limit)
    session.expect(topic, partitions, rate.count)
    return rate_samples(name, rate, meter, command(name))


def consume(size: int, where: str, session: Session) -> list[Sample]:
    """Consume through librdkafka what was just written (tail), or what only the disk has (cold)."""
    name = f"consume_{_size(size)}_{where}"
    topic, count = _source(session, f"produce_{_size(size)}_acks1_os", size)
    count = min(count, session.profile.consume_messages)
    if where == "cold":
        session.forget_page_cache()
    with session.metered() as meter:
        rate = load.consume(session.bootstrap, topic, 1, count)
    return rate_samples(name, rate, meter, command(name), goal="consume")


def consume_java(size: int, session: Session) -> list[Sample]:
    """Consume with Kafka's ConsumerPerformance."""
    name = f"consume_java_{_size(size)}_tail"
    topic, count = _source(session, f"produce_java_{_size(size)}_acks1_os", size)
    with session.metered() as meter:
        done = java_tools.consumer_performance(session.bootstrap, topic, size, count)
    return rate_samples(name, done.rate, meter, done.command, goal="consume")


def consume_socket(size: int, where: str, session: Session) -> list[Sample]:
    """Fetch 1 MiB at a time and look only at batch headers: how much the broker alone can give."""
    name = f"consume_socket_{_size(size)}_{where}"
    topic, count = _source(session, f"produce_socket_{_size(size)}_acks1_os", size)
    if where == "cold":
        session.forget_page_cache()
    with session.metered() as meter:
        rate = sockets.read_partition(session.bootstrap, topic, 0, count)
    return rate_samples(name, rate, meter, command(name), goal="consume")


def latency(session: Session) -> list[Sample]:
    """Measure end to end at 1,000 messages/s, each from the moment it was due."""
    topic = session.topic()
    with session.metered() as meter:
        found = load.latencies(session.bootstrap, topic, RATE_PER_S, session.profile.latency_s)
    return _latency_samples("latency", found, meter, command("latency"))


def latency_java(session: Session) -> list[Sample]:
    """Measure with Kafka's EndToEndLatency, one message at a time, in whole milliseconds.

    That is too coarse for a goal of parts of one, and its first thousands of messages show how its
    own program is being compiled: with 5,000 the slowest hundredth is 5 ms, with 60,000 it is 1.
    """
    topic = session.topic()
    count = int(session.profile.latency_s * JAVA_MESSAGES_PER_S)
    with session.metered() as meter:
        found, line = java_tools.end_to_end_latency(session.bootstrap, topic, count)
    return _latency_samples("latency_java", found, meter, line, goal="")


def unbatched(session: Session) -> list[Sample]:
    """Send one 100-byte record per request from 50 connections, each waiting for its answer."""
    topic = session.topic()
    with session.metered() as meter:
        rate = sockets.produce_in_turn(session.bootstrap, topic, 50, session.profile.produce_s)
    session.expect(topic, 1, rate.count)
    return rate_samples(
        "unbatched_50_connections", rate, meter, command("unbatched"), goal="unbatched"
    )


def one_connection(session: Session) -> list[Sample]:
    """Send one 100-byte record per request over one connection, 64 requests not yet answered."""
    topic = session.topic()
    limit = (session.profile.produce_s * 0.6, 10_000_000)
    with session.metered() as meter:
        rate = sockets.produce_pipelined(
            session.bootstrap, topic, (1, 100), limit, ONE_CONNECTION_WINDOW
        )
    session.expect(topic, 1, rate.count)
    return rate_samples(
        "unbatched_1_connection", rate, meter, command("one_connection"), goal="unbatched"
    )


def in_turn(connections: int, session: Session) -> list[Sample]:
    """Send one 100-byte record per request from a number of connections that wait in between."""
    topic = session.topic()
    with session.metered() as meter:
        rate = sockets.produce_in_turn(session.bootstrap, topic, connections, STEP_S)
    session.expect(topic, 1, rate.count)
    return _step(f"in_turn_{connections}", rate, meter)


def flushed(partitions: int, session: Session) -> list[Sample]:
    """Send one 100-byte record per request to each of many partitions, acknowledged by the disk."""
    topic = session.topic(partitions, durability="disk")
    for number in range(partitions):
        sockets.wait_for_end(session.bootstrap, topic, number)
    with session.metered() as meter:
        rate = sockets.produce_in_turn(
            session.bootstrap, topic, partitions, STEP_S, partitions, acks=-1
        )
    session.expect(topic, partitions, rate.count)
    return _step(f"flushed_{partitions}", rate, meter, goal="unbatched")


def sized(size: int, session: Session) -> list[Sample]:
    """Produce prebuilt batches of messages of one size, each batch of 128 KiB or one message."""
    topic = session.topic()
    batch = (max(BATCH_BYTES // (size + 10), 1), size)
    with session.metered() as meter:
        rate = sockets.produce_pipelined(
            session.bootstrap, topic, batch, (STEP_S, session.profile.bytes_max // BATCH_BYTES)
        )
    session.expect(topic, 1, rate.count)
    return _step(f"size_{size}", rate, meter)


def consumers(count: int, session: Session) -> list[Sample]:
    """Have a number of consumers fetch the same topic at the same time, all of it each."""
    topic, records = _source(session, "produce_socket_1k_acks1_os", 1024)
    with session.metered() as meter, ThreadPoolExecutor(count) as readers:
        began = time.perf_counter()
        read = [
            readers.submit(sockets.read_partition, session.bootstrap, topic, 0, records)
            for _ in range(count)
        ]
        size = sum(one.result().size for one in read)
        taken = time.perf_counter() - began
    return _step(f"consumers_{count}", Rate(count * records, taken, size), meter)


def _step(name: str, rate: Rate, meter: Meter, goal: str = "") -> list[Sample]:
    """Return one point of a curve."""
    mb_s = rate.bytes_per_s / 1e6
    cost = (meter.cpu_s, meter.rss_mb, command(name))
    return [Sample(name, rate.per_s, "msg/s", *cost, mb_s=mb_s, goal=goal)]


def connections(session: Session) -> list[Sample]:
    """Keep 10,000 connections open and ask on every one."""
    count = session.profile.connections
    with session.metered() as meter:
        socks = sockets.open_connections(session.bootstrap, count)
        try:
            rate = sockets.ask_all(socks)
            open_mb = usage_of(session.peer.pid).rss_mb
        finally:
            sockets.close_connections(socks)
    cost = (meter.cpu_s, open_mb, command("connections"))
    return [
        Sample("connections.answered", rate.count, "connections", *cost),
        Sample("connections.per_s", rate.per_s, "answers/s", *cost),
        Sample("connections.rss", open_mb, "MB", *cost, goal="memory"),
    ]


def loaded_memory(session: Session) -> list[Sample]:
    """Report the largest memory the broker had in the cases before, which speak Kafka's protocol.

    The rest of the cases are of protocols that the peer does not have.
    """
    used = usage_of(session.peer.pid)
    cost = (used.cpu_s, used.peak_mb, command("loaded_memory"))
    return [Sample("loaded.rss", used.peak_mb, "MB", *cost, goal="memory")]


def all_fronts_memory(session: Session) -> list[Sample]:
    """Report the largest memory of the node, and of its process for Cap'n Proto, in all cases."""
    if not session.ours:
        return []
    used = usage_of(session.peer.pid)
    return [
        Sample(
            "all_fronts.rss",
            used.peak_mb,
            "MB",
            used.cpu_s,
            used.peak_mb,
            command("all_fronts_memory"),
        )
    ]


def _latency_samples(
    name: str, found: load.Latencies, meter: Meter, line: str, goal: str = "latency"
) -> list[Sample]:
    cost = (meter.cpu_s, meter.rss_mb, line)
    return [
        Sample(f"{name}.mean", found.mean, "ms", *cost),
        Sample(f"{name}.p50", found.p50, "ms", *cost),
        Sample(f"{name}.p99", found.p99, "ms", *cost, goal=goal),
        Sample(f"{name}.p999", found.p999, "ms", *cost),
    ]


def _source(session: Session, written_by: str, size: int) -> tuple[str, int]:
    """Return the topic another case wrote, or write one when that case did not run."""
    if written_by not in session.written:
        topic = session.topic()
        batch = (BATCH_BYTES // (size + 10), size)
        limit = (60.0, session.profile.bytes_max // BATCH_BYTES)
        rate = sockets.produce_pipelined(session.bootstrap, topic, batch, limit)
        session.written[written_by] = (topic, rate.count)
    return session.written[written_by]


def _size(size: int) -> str:
    return f"{size // 1024}k" if size >= 1024 else f"{size}b"


def _produce_case(size: int, acks: str, durability: str) -> Case:
    name = f"produce_{_size(size)}_{acks}_{durability}"
    about = f"librdkafka, {size} B, {acks}, acknowledged by the {durability}"
    return Case(name, about, partial(produce, size, acks, durability))


CASES = [
    Case("start", "start of the process to its first answer", start),
    Case("idle", "memory and processor of an idle broker", idle),
    Case("warm_up", "not reported", warm_up),
    _produce_case(100, "acks1", "os"),
    _produce_case(1024, "acks1", "os"),
    Case("consume_100b_tail", "librdkafka, 100 B, just written", partial(consume, 100, "tail")),
    Case("consume_1k_tail", "librdkafka, 1 KiB, just written", partial(consume, 1024, "tail")),
    _produce_case(100, "acksall", "os"),
    _produce_case(1024, "acksall", "os"),
    _produce_case(100, "acksall", "disk"),
    _produce_case(1024, "acksall", "disk"),
    Case("produce_java_100b_acks1_os", "ProducerPerformance", partial(produce_java, 100, "acks1")),
    Case("consume_java_100b_tail", "ConsumerPerformance, 100 B", partial(consume_java, 100)),
    Case(
        "produce_java_1k_acksall_os", "ProducerPerformance", partial(produce_java, 1024, "acksall")
    ),
    Case("produce_socket_100b_acks1_os", "prebuilt batches", partial(produce_socket, 100)),
    Case("produce_socket_1k_acks1_os", "prebuilt batches", partial(produce_socket, 1024)),
    Case("consume_socket_1k_tail", "plain fetches", partial(consume_socket, 1024, "tail")),
    Case("consume_1k_cold", "librdkafka, 1 KiB, from disk", partial(consume, 1024, "cold")),
    Case("consume_socket_1k_cold", "plain fetches, disk", partial(consume_socket, 1024, "cold")),
    Case("latency", "end to end at 1,000 messages/s, librdkafka", latency),
    Case("latency_java", "EndToEndLatency", latency_java),
    Case("unbatched", "50 connections, one record per request, in turn", unbatched),
    Case("one_connection", "one connection, one record per request, pipelined", one_connection),
    *(
        Case(
            f"partitions_{count}",
            f"100 B over {count} partitions",
            partial(produce_partitions, count),
        )
        for count in (1, 10, 100, 1000)
    ),
    *(
        Case(f"in_turn_{count}", f"{count} connections, one record each", partial(in_turn, count))
        for count in (1, 10, 100, 1000)
    ),
    *(
        Case(
            f"flushed_{count}",
            f"{count} partitions, each with one record at a time, acknowledged by the disk",
            partial(flushed, count),
        )
        for count in (1, 10, 100)
    ),
    *(
        Case(f"size_{size}", f"prebuilt batches of {size} B messages", partial(sized, size))
        for size in (10, 100, 1_000, 10_000, 100_000)
    ),
    *(
        Case(f"consumers_{count}", f"{count} consumers of one topic", partial(consumers, count))
        for count in (1, 2, 4, 8)
    ),
    Case("loaded_memory", "largest memory so far", loaded_memory),
    Case("framed", "the framed protocol: in, out, and latency", framed),
    Case("provider", "the provider's protocol: in, out, and latency", provider),
    Case(
        "amqp",
        "AMQP persistent with confirms, shared, backlog, fan-out, latency; RabbitMQ too",
        amqp,
    ),
    Case(
        "mqtt",
        "MQTT one to one with QoS 0 and 1, 500 devices, latency; mosquitto and amqtt get the same",
        mqtt,
    ),
    Case("shadow", "updates of the shadows of 100 devices over MQTT, and latency", shadow),
    Case("iot_chain", "telemetry of 100 devices over MQTT to a page in Chromium", iot_chain),
    Case("cdc", "changes of PostgreSQL and MongoDB into topics; the peer is Debezium", cdc),
    Case("websocket", "fan-out to 100 clients of the gateway, and latency", websocket),
    Case("capnp", "Cap'n Proto: batches streamed in, pushed out, and one call", capnp_front),
    Case("grpc", "gRPC: batches streamed in, pushed out, and one call", grpc_front),
    Case("streams", "durable messages; NATS JetStream and Redis Streams get the same", streams),
    Case("all_fronts_memory", "largest memory with the loads of every front", all_fronts_memory),
    Case("ceilings", "what loopback, disk, memory and checksums can do at most", ceilings),
    Case("connections", "10,000 open connections, all answered", connections),
    Case("connected", "memory for each of 20,000 idle devices and Kafka clients", connected),
]

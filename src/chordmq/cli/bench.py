"""Measures a broker with ChordMQ's own client: produce, consume and end-to-end latency."""

import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.exits import EXIT_CANNOT_CONNECT
from chordmq.cli.identity import connection
from chordmq.cli.messages import Acks, Compressed, producer_settings
from chordmq.cli.options import Bootstrap, Json, Settings, address, pairs
from chordmq.cli.output import fail, progress, say, show_facts, show_json, thousands
from chordmq.cli.running import run
from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from chordmq.client.consumer import Consumer
    from chordmq.client.offsets import TopicPartition
    from chordmq.client.producer import Producer
    from chordmq.clock import Clock

DEFAULT_TOPIC = "chordmq-bench"
GROUP_SIZE = 500
"""Records queued at once; the first of each group is timed."""
BATCHES_BUFFERED = 8
"""Enough to keep the broker busy; more would only measure our own queue."""
IDLE_S = 10.0
"""A consumer that sees nothing for so long gives up."""
VALUE_SIZE_MIN = 8

_SENT_AT = struct.Struct(">d")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Measure a broker: messages and megabytes per second, and latency.

    \b
      chordmq bench produce --records 1000000 --size 100
      chordmq bench consume
      chordmq bench latency --rate 1000 --seconds 10
      chordmq bench mqtt --devices 1000
    """,
)

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="Topic to use; it is created if it is not there.")
]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many records.")]
Size = Annotated[int, typer.Option("--size", min=VALUE_SIZE_MIN, help="Bytes of each value.")]
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1, help="If it is created.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a benchmark sends."""

    topic: str
    partitions: int
    settings: dict[str, str]
    records: int
    size: int


def percentiles(samples_s: Sequence[float]) -> dict[str, float]:
    """Return the usual percentiles of samples in seconds, as milliseconds."""
    if not samples_s:
        return {}
    ordered = sorted(samples_s)
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(rank * len(ordered)))] * 1000, 3)
        for name, rank in ranks.items()
    }


def throughput(records: int, size: int, seconds: float) -> dict[str, Any]:
    """Return what was moved, and how fast."""
    seconds = max(seconds, 1e-9)
    return {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 6),
        "records_per_s": round(records / seconds, 1),
        "mb_per_s": round(size / seconds / 1e6, 3),
    }


@app.command()
def produce(
    topic: Topic = DEFAULT_TOPIC,
    records: Records = 1_000_000,
    size: Size = 100,
    partitions: Partitions = 1,
    settings: Settings = None,
    acks: Acks = "all",
    compression: Compressed = "none",
    batch_bytes: Annotated[int, typer.Option("--batch-bytes", min=1)] = 512 * 1024,
    linger_ms: Annotated[float, typer.Option("--linger-ms", min=0)] = 5.0,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read all back and count.")
    ] = True,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Write records as fast as they are taken, then read them back and count.

    \b
      chordmq bench produce
      chordmq bench produce --records 5000000 --size 1000 --acks 1 --set flush=os
    """
    load = Load(
        topic=topic,
        partitions=partitions,
        settings=pairs(settings),
        records=records,
        size=size,
    )
    options = {
        "acks": acks,
        "compression": compression,
        "batch_bytes": batch_bytes,
        "linger_s": linger_ms / 1000,
        "buffer_bytes": BATCHES_BUFFERED * batch_bytes,
    }
    result = run(_produce(address(bootstrap), load, options, verify), as_json=as_json)
    _show({"bench": "produce", "acks": acks, **result}, as_json)
    if verify and result["verified"] != records:
        say(f"chordmq: {records} records were acknowledged, {result['verified']} were read back")
        raise typer.Exit(1)


async def _produce(
    bootstrap: str, load: Load, options: dict[str, Any], verify: bool
) -> dict[str, Any]:
    from chordmq.client.offsets import LATEST_TIME, offsets_for
    from chordmq.client.producer import Producer

    async with Producer(bootstrap, producer_settings(**options), connection()) as producer:
        partitions = await _prepare(bootstrap, producer, load)
        times = dict.fromkeys(partitions, LATEST_TIME)
        before = await offsets_for(producer.cluster, times)
        latencies: list[float] = []
        started_s = producer.cluster.clock.monotonic_s()
        await _fill(producer, load, latencies)
        seconds = producer.cluster.clock.monotonic_s() - started_s
        after = await offsets_for(producer.cluster, times)
    result = {
        "topic": load.topic,
        "partitions": len(partitions),
        "record_bytes": load.size,
        **throughput(load.records, load.records * load.size, seconds),
        "ack_latency_ms": percentiles(latencies),
    }
    if verify:
        read = await _count(bootstrap, before, after)
        result |= {"verified": read["records"], "verify_records_per_s": read["records_per_s"]}
    return result


async def _prepare(bootstrap: str, producer: "Producer", load: Load) -> list["TopicPartition"]:
    from chordmq.client.admin import Admin
    from chordmq.client.codes import Code
    from chordmq.client.errors import BrokerRefused

    async with Admin(bootstrap, connection()) as admin:
        try:
            await admin.create_topic(load.topic, load.partitions, -1, load.settings)
        except BrokerRefused as error:
            if error.code != Code.TOPIC_ALREADY_EXISTS:
                raise
    info = await producer.cluster.topic(load.topic, create=True)
    return [(load.topic, part.index) for part in info.partitions]


async def _fill(producer: "Producer", load: Load, latencies: list[float]) -> None:
    import random

    from chordmq.records.record import NewRecord

    clock = producer.cluster.clock
    values = [random.randbytes(load.size) for _ in range(GROUP_SIZE)]  # noqa: S311 (filler)
    with progress("records") as display:
        task = display.add_task("produce", total=load.records, rate="")
        started_s = clock.monotonic_s()
        sent = 0
        while sent < load.records:
            now_ms, now_s = clock.now_ms(), clock.monotonic_s()
            group = [NewRecord(now_ms, None, value) for value in values[: load.records - sent]]
            first, *_ = await producer.enqueue_all(load.topic, group)
            first.answered.add_done_callback(partial(_note, clock, now_s, latencies))
            sent += len(group)
            rate = sent / max(now_s - started_s, 1e-9)
            display.update(task, completed=sent, rate=f"{thousands(rate)}/s")
        await producer.flush()


def _note(clock: "Clock", sent_s: float, latencies: list[float], _: object) -> None:
    latencies.append(clock.monotonic_s() - sent_s)


@app.command()
def consume(
    topic: Topic = DEFAULT_TOPIC,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="Stop after so many.")
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Read a topic from its start to its end as fast as it is served.

    \b
      chordmq bench consume
      chordmq bench consume --topic orders --records 100000
    """

    async def work() -> dict[str, Any]:
        from chordmq.client.admin import Admin

        async with Admin(address(bootstrap), connection()) as admin:
            info = await admin.topic(topic)
            ends = await admin.ends((topic, part.index) for part in info.partitions)
        starts = {pair: start for pair, (start, _) in ends.items()}
        stops = {pair: end for pair, (_, end) in ends.items()}
        read = await _count(address(bootstrap), starts, stops, records)
        return {"topic": topic, "partitions": len(ends), **read}

    _show({"bench": "consume", **run(work(), as_json=as_json)}, as_json)


async def _count(
    bootstrap: str,
    starts: dict["TopicPartition", int],
    stops: dict["TopicPartition", int],
    records_max: int | None = None,
) -> dict[str, Any]:
    """Read from the starts to the stops and count what is there."""
    from chordmq.client.consumer import Consumer
    from chordmq.client.offsets import Start

    total = sum(stops[pair] - start for pair, start in starts.items())
    wanted = total if records_max is None else min(total, records_max)
    records = size = 0
    async with Consumer(bootstrap, connection=connection()) as consumer:
        await consumer.assign({pair: Start(offset) for pair, offset in starts.items()})
        clock = consumer.cluster.clock
        started_s = clock.monotonic_s()
        with progress("records") as display:
            task = display.add_task("consume", total=wanted, rate="")
            while records < wanted and not _reached(consumer, stops):
                chunk = await consumer.poll(IDLE_S)
                if chunk is None:
                    break
                stop = stops[chunk.topic, chunk.partition]
                found = [record for record in chunk.records if record.offset < stop]
                records += len(found)
                size += sum(len(record.value or b"") for record in found)
                rate = records / max(clock.monotonic_s() - started_s, 1e-9)
                display.update(task, completed=records, rate=f"{thousands(rate)}/s")
        return throughput(records, size, clock.monotonic_s() - started_s)


def _reached(consumer: "Consumer", stops: dict["TopicPartition", int]) -> bool:
    return all(consumer.position(*pair) >= stop for pair, stop in stops.items())


@app.command()
def latency(
    topic: Topic = DEFAULT_TOPIC + "-latency",
    rate: Annotated[float, typer.Option("--rate", min=0.1, help="Records per second.")] = 1000.0,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long.")] = 10.0,
    size: Size = 100,
    partitions: Partitions = 1,
    settings: Settings = None,
    acks: Acks = "all",
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Measure the time from sending a record to reading it, at a steady rate.

    A record's time starts when it was due, so that a stall of the broker counts for all of them.

    \b
      chordmq bench latency
      chordmq bench latency --rate 5000 --seconds 30 --set flush=os
    """
    load = Load(
        topic=topic,
        partitions=partitions,
        settings=pairs(settings),
        records=max(1, int(rate * seconds)),
        size=size,
    )
    result = run(_latency(address(bootstrap), load, rate, acks), as_json=as_json)
    _show({"bench": "latency", "acks": acks, **result}, as_json)


async def _latency(bootstrap: str, load: Load, rate: float, acks: str) -> dict[str, Any]:
    import asyncio

    from chordmq.client.producer import Producer

    samples: list[float] = []
    settings = producer_settings("none", acks, linger_s=0.0)
    async with Producer(bootstrap, settings, connection()) as producer:
        await _prepare(bootstrap, producer, load)
        async with _listening(bootstrap, load.topic) as consumer:
            started_s = producer.cluster.clock.monotonic_s()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_receive(consumer, load.records, samples))
                tasks.create_task(_send_steadily(producer, load, rate))
            seconds = producer.cluster.clock.monotonic_s() - started_s
    return {
        "topic": load.topic,
        "record_bytes": load.size,
        "rate": rate,
        "sent": load.records,
        "verified": len(samples),
        "seconds": round(seconds, 6),
        "latency_ms": percentiles(samples),
    }


@asynccontextmanager
async def _listening(bootstrap: str, topic: str) -> AsyncIterator["Consumer"]:
    from chordmq.client.consumer import Consumer
    from chordmq.client.offsets import LATEST

    async with Consumer(bootstrap, connection=connection()) as consumer:
        await consumer.assign_topic(topic, LATEST)
        yield consumer


async def _send_steadily(producer: "Producer", load: Load, rate: float) -> None:
    import asyncio

    clock: Clock = producer.cluster.clock
    padding = bytes(load.size - _SENT_AT.size)
    started_s = clock.monotonic_s()
    for number in range(load.records):
        due_s = started_s + number / rate
        early_s = due_s - clock.monotonic_s()
        if early_s > 0:
            await asyncio.sleep(early_s)
        await producer.enqueue(load.topic, _SENT_AT.pack(due_s) + padding)
    await producer.flush()


async def _receive(consumer: "Consumer", wanted: int, samples: list[float]) -> None:
    clock: Clock = consumer.cluster.clock
    with progress("records") as display:
        task = display.add_task("latency", total=wanted, rate="")
        while len(samples) < wanted:
            chunk = await consumer.poll(IDLE_S)
            if chunk is None:
                return
            now_s = clock.monotonic_s()
            samples += [now_s - _SENT_AT.unpack_from(row.value or b"")[0] for row in chunk.records]
            display.update(task, completed=len(samples))


@app.command()
def mqtt(
    where: Annotated[
        str, typer.Option("--address", "-a", help="Where MQTT is served.")
    ] = "127.0.0.1:1883",
    devices: Annotated[int, typer.Option("--devices", "-d", min=1, help="How many.")] = 1000,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.001, help="Seconds between messages of a device.")
    ] = 1.0,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long.")] = 10.0,
    qos: Annotated[int, typer.Option("--qos", min=0, max=1)] = 1,
    size: Annotated[int, typer.Option("--size", min=1, help="Bytes of each message.")] = 100,
    prefix: Annotated[
        str, typer.Option("--prefix", help="The names begin so.")
    ] = "iotsphere/devices",
    as_json: Json = False,
) -> None:
    """Simulate devices that publish readings, and a back end that subscribes to all of them.

    \b
      chordmq bench mqtt
      chordmq bench mqtt --devices 10000 --interval 10 --seconds 60
    """
    from chordmq.cli.fleet import Fleet, simulate

    host, _, port = where.rpartition(":")
    fleet = Fleet(
        host=host,
        port=int(port),
        devices=devices,
        interval_s=interval_s,
        seconds=seconds,
        qos=qos,
        size=size,
        prefix=prefix,
    )
    try:
        result = simulate(fleet)
    except (OSError, TimeoutError) as error:
        fail(
            f"{where} does not serve MQTT: {error}", EXIT_CANNOT_CONNECT, as_json=as_json,
            name="CANNOT_CONNECT",
        )  # fmt: skip
    _show(result, as_json)


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(result)
        return
    facts = {}
    for name, value in result.items():
        if isinstance(value, dict):
            value = "  ".join(f"{rank} {number:g}" for rank, number in value.items())
        elif isinstance(value, float):
            value = f"{value:,.2f}" if value < 1000 else thousands(value)
        facts[name.replace("_", " ")] = value
    show_facts(facts)

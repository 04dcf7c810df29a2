"""Produces records from lines of input, and consumes records to lines of output."""

import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from chordmq.cli.completion import group_names, topic_names
from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.keys import EncryptWith, envelope
from chordmq.cli.options import Bootstrap, Json, address, pairs
from chordmq.cli.output import fail, progress, say, show_json, thousands
from chordmq.cli.places import PLACES, read_starts
from chordmq.cli.rendering import FORMAT_HELP, compile_format, from_json, from_line, to_json
from chordmq.cli.running import run
from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from chordmq.cli.rendering import Render
    from chordmq.client.consumer import Consumer
    from chordmq.client.fetcher import Chunk
    from chordmq.client.offsets import TopicPartition
    from chordmq.client.producer import ProducerSettings
    from chordmq.encryption.envelope import Envelope
    from chordmq.records.record import Record

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_BYTES = 1 << 20
CHUNKS_AHEAD = 4
POLL_S = 0.5

Acks = Annotated[str, typer.Option("--acks", metavar="all|1|0", help="Who must have stored it.")]
Compressed = Annotated[
    str,
    typer.Option("--compression", "-z", metavar="|".join(COMPRESSIONS), help="For each batch."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How lines become records."""

    topic: str
    file: BinaryIO
    size: int | None
    separator: bytes | None
    is_json: bool
    tombstones: bool
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    rate: float | None


def produce(
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", help="Where to write.", autocompletion=topic_names),
    ],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read from a file, not standard input.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Split each line in key and value.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="One key for all records.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header; may be repeated."),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Lines are records as `consume --json` prints.")
    ] = False,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="An empty value deletes its key.")
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most so many a second.")] = None,
    compression: Compressed = "none",
    acks: Acks = "all",
    encrypt_with: EncryptWith = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Write lines to a topic, each as one record.

    \b
      echo hello | chordmq produce greetings
      chordmq produce orders --file orders.txt --key-separator :
      chordmq produce orders --header source=import --compression zstd < orders.txt
      chordmq consume orders --json | chordmq produce copy --json-lines
    """
    source, size = _open(file, as_json)
    chosen = Input(
        topic=topic,
        file=source,
        size=size,
        separator=separator.encode().decode("unicode_escape").encode() if separator else None,
        is_json=json_lines,
        tombstones=tombstones,
        key=key.encode() if key is not None else None,
        headers=tuple((name, value.encode()) for name, value in pairs(headers).items()),
        partition=partition,
        rate=rate,
    )
    settings: dict[str, Any] = {"compression": compression, "acks": acks}
    settings["encryption"] = envelope(encrypt_with, as_json=as_json)
    try:
        done = run(_produce(address(bootstrap), chosen, settings), as_json=as_json)
    finally:
        if file is not None:
            source.close()
    if as_json:
        show_json(done)
    else:
        rate_s = done["records"] / done["seconds"] if done["seconds"] else 0
        say(f"{thousands(done['records'])} records to {topic} ({thousands(rate_s)}/s)")


def _open(file: Path | None, as_json: bool) -> tuple[BinaryIO, int | None]:
    if file is None:
        return sys.stdin.buffer, None
    try:
        return file.open("rb"), file.stat().st_size
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", EXIT_USAGE, as_json=as_json)


def producer_settings(compression: str, acks: str, **more: Any) -> "ProducerSettings":
    """Read the options that say how records are sent; ValueError if one means nothing."""
    from chordmq.client.producer import ProducerSettings
    from chordmq.records.compression import Compression

    if compression not in COMPRESSIONS:
        raise ValueError(f"compression {compression!r} is none of {', '.join(COMPRESSIONS)}")
    codes = {"all": -1, "-1": -1, "1": 1, "0": 0}
    if acks not in codes:
        raise ValueError(f"acks {acks!r} is none of all, 1, 0")
    kind = Compression[compression.upper()]
    return ProducerSettings(compression=kind, acks=codes[acks], **more)


async def _produce(bootstrap: str, chosen: Input, settings: dict[str, Any]) -> dict[str, Any]:
    import asyncio

    from chordmq.client.producer import Producer

    count = size = 0
    async with Producer(bootstrap, producer_settings(**settings), connection()) as producer:
        clock = producer.cluster.clock
        started_s = clock.monotonic_s()
        with progress("bytes") as display:
            task = display.add_task(f"to {chosen.topic}", total=chosen.size, rate="")
            async for lines in lines_of(chosen.file):
                for line in lines:
                    parsed = (
                        from_json(line)
                        if chosen.is_json
                        else from_line(line, chosen.separator, tombstones=chosen.tombstones)
                    )
                    await producer.enqueue(
                        chosen.topic,
                        parsed.value,
                        key=parsed.key if chosen.key is None else chosen.key,
                        headers=parsed.headers + chosen.headers,
                        partition=chosen.partition,
                    )
                    count += 1
                    size += len(line) + 1
                    if chosen.rate:
                        due_s = started_s + count / chosen.rate
                        await asyncio.sleep(max(0.0, due_s - clock.monotonic_s()))
                display.update(task, completed=size, rate=f"{thousands(count)} records")
            await producer.flush()
        seconds = clock.monotonic_s() - started_s
    return {
        "topic": chosen.topic,
        "records": count,
        "bytes": size,
        "seconds": round(seconds, 6),
    }


async def lines_of(file: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a stream as they come, read by a thread that nothing has to wait for."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD)
    # Python cannot end while a thread waits within a buffered stream, only within a raw one.
    raw = getattr(file, "raw", file)

    def read() -> None:
        rest = b""
        # The loop is closed under the reader when the command ends before its input does.
        with suppress(RuntimeError, ValueError):
            while chunk := raw.read(READ_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                room.acquire()
                loop.call_soon_threadsafe(queue.put_nowait, lines)
            loop.call_soon_threadsafe(queue.put_nowait, [rest] if rest else [])
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (lines := await queue.get()) is not None:
        yield lines
        room.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to read, how far, and how to print it."""

    topics: list[str]
    start: str
    count: int | None
    group: str | None
    partitions: list[int] | None
    follow: bool
    render: "Render"
    encryption: "Envelope | None"


def consume(
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC", help="What to read.", autocompletion=topic_names),
    ],
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help=f"Where to start: {PLACES}.")
    ] = "earliest",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as a member of a group, which remembers.",
            autocompletion=group_names,
        ),
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Read only this partition.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more at the end, until Ctrl-C.")
    ] = False,
    template: Annotated[
        str, typer.Option("--format", "-o", metavar="FORMAT", help=f"{FORMAT_HELP}.")
    ] = "%v",
    encrypt_with: EncryptWith = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Print the records of topics, and stop at their end unless told to follow.

    \b
      chordmq consume orders
      chordmq consume orders --from -10                   the last ten of each partition
      chordmq consume orders --from 15m --follow          since a quarter of an hour, then live
      chordmq consume orders -n 1 --format '%T %k: %v'
      chordmq consume orders --group billing --follow
      chordmq consume orders --json | jq .value
    """
    wanted = Wanted(
        topics=topics,
        start=start,
        count=count,
        group=group,
        partitions=partitions,
        follow=follow,
        render=to_json if as_json else _rendered(template),
        encryption=envelope(encrypt_with, as_json=as_json),
    )
    run(_consume(address(bootstrap), wanted), as_json=as_json)


async def _consume(bootstrap: str, wanted: Wanted) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        stopped.set()
        loop.remove_signal_handler(number)  # a second one ends the command at once

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    consumer = await _consumer(bootstrap, wanted)
    async with consumer:
        await _begin(consumer, wanted)
        ends = None if wanted.follow else await _ends(consumer, wanted)
        left = wanted.count
        has_joined = wanted.group is None
        while not stopped.is_set() and not (has_joined and _is_done(consumer, ends)):
            chunk = await consumer.poll(POLL_S)
            has_joined = True
            if chunk is None:
                continue
            if left is not None and len(chunk.records) >= left:
                await _stop_within(consumer, chunk, left, wanted)
                return
            _print(chunk, chunk.records, wanted)
            left = None if left is None else left - len(chunk.records)


async def _consumer(bootstrap: str, wanted: Wanted) -> "Consumer":
    from chordmq.client.consumer import Consumer, ConsumerSettings
    from chordmq.client.membership import GroupSettings

    if wanted.group is None:
        settings = ConsumerSettings(encryption=wanted.encryption)
        return Consumer(bootstrap, settings, connection())
    if wanted.partitions:
        raise ValueError("a group decides about partitions; leave --partition or --group away")
    if wanted.start.startswith("-") or wanted.start.isdigit():
        raise ValueError(
            "a group starts where it stopped; --from can be earliest, latest or a time"
        )
    plain = Consumer(bootstrap, connection=connection())
    (start,) = (await read_starts(wanted.start, plain.cluster, [("", 0)])).values()
    group = GroupSettings(
        group=wanted.group, session_timeout_ms=10_000, rebalance_timeout_ms=30_000
    )
    settings = ConsumerSettings(group=group, start=start, encryption=wanted.encryption)
    return Consumer(bootstrap, settings, connection())


async def _begin(consumer: "Consumer", wanted: Wanted) -> None:
    if wanted.group is not None:
        await consumer.subscribe(*wanted.topics)
        return
    pairs = await _pairs(consumer, wanted)
    await consumer.assign(await read_starts(wanted.start, consumer.cluster, pairs))


async def _pairs(consumer: "Consumer", wanted: Wanted) -> list["TopicPartition"]:
    found = []
    for topic in wanted.topics:
        info = await consumer.cluster.topic(topic)
        indexes = wanted.partitions or range(len(info.partitions))
        found += [(topic, index) for index in indexes]
    return found


async def _ends(consumer: "Consumer", wanted: Wanted) -> dict["TopicPartition", int]:
    from chordmq.client.offsets import LATEST_TIME, offsets_for

    pairs = await _pairs(consumer, wanted)
    return await offsets_for(consumer.cluster, dict.fromkeys(pairs, LATEST_TIME), committed=True)


def _is_done(consumer: "Consumer", ends: dict["TopicPartition", int] | None) -> bool:
    """Return whether every assigned partition was read to where it ended at the start."""
    return ends is not None and all(
        consumer.position(*pair) >= ends.get(pair, 0) for pair in consumer.assignment
    )


async def _stop_within(consumer: "Consumer", chunk: "Chunk", left: int, wanted: Wanted) -> None:
    """Print the last records, and let the position stand right behind them."""
    from chordmq.client.offsets import Start

    _print(chunk, chunk.records[:left], wanted)
    behind = Start(chunk.records[left - 1].offset + 1)
    await consumer.seek(chunk.topic, chunk.partition, behind)


def _print(chunk: "Chunk", records: list["Record"], wanted: Wanted) -> None:
    lines = [wanted.render(chunk.topic, chunk.partition, record) for record in records]
    print("\n".join(lines), flush=True)


def _rendered(template: str) -> "Render":
    try:
        return compile_format(template)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None

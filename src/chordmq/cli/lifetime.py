"""Runs a node from its settings until told to stop."""

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.cli.exits import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE
from chordmq.loading import load_without

if TYPE_CHECKING:
    import asyncio

    from chordmq.config import Config
    from chordmq.node import Node

Work = Coroutine[None, None, None]

YOUNG_OBJECTS_MAX = 10_000
"""Objects that are made before the interpreter looks for those that nobody uses any more."""
YOUNG_LOOKS = 3
"""After how many of these looks it looks once more at what has stayed, while all clients wait: with
20, that was 57 ms after every 15,000 messages that the tail of a log keeps."""
OLD_LOOKS = 100
"""After how many of those it looks at everything."""


def serve(file: Path | None, assignments: list[str], insecure: bool) -> None:
    """Run one node with these settings until told to stop."""
    gc.disable()  # until the node is ready: what it loads stays
    load_without("typing_extensions", "msgspec")  # which asks it for what Python has by now
    run(read_config(file, assignments, insecure), announce)


def read_config(file: Path | None, assignments: list[str], insecure: bool) -> "Config":
    """Read the configuration, or end the program with the reason why it cannot be used."""
    from chordmq.config import load
    from chordmq.errors import InvalidSetting

    try:
        return load(
            file,
            environment=os.environ,
            assignments=[*assignments, *(["insecure=true"] if insecure else [])],
        )
    except InvalidSetting as error:
        print(f"chordmq: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def nothing(node: "Node") -> list[Work]:
    """Run nothing beside a node."""
    return []


def run(
    config: "Config",
    started: Callable[["Node"], None],
    beside: Callable[["Node"], list[Work]] = nothing,
) -> None:
    """Run a node until SIGTERM or SIGINT; a second signal ends it without waiting."""
    import uvloop

    from chordmq import logs
    from chordmq.errors import CannotStart, ChordMQError

    gc.disable()
    logs.configure(config.logs)
    log = logs.get_logger(__name__)
    allow_many_files()
    try:
        uvloop.run(until_stopped(config, started, beside))
    except (CannotStart, ChordMQError) as error:
        print(f"chordmq: {error}", file=sys.stderr)
        sys.exit(EXIT_REFUSED)
    except Exception:
        log.exception("the node failed")
        sys.exit(EXIT_FAULT)


async def until_stopped(
    config: "Config",
    started: Callable[["Node"], None],
    beside: Callable[["Node"], list[Work]],
) -> None:
    """Run a node, and what stands beside it, until the first signal."""
    import asyncio

    from chordmq.clock import SystemClock
    from chordmq.node import running

    stopped, changed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopped.is_set():
            os._exit(EXIT_INTERRUPTED)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with running(config, SystemClock()) as node:
        loop.add_signal_handler(signal.SIGHUP, changed.set)
        gc.freeze()  # modules and logs stay: looking at them again and again would cost the clients
        # Messages come by the thousand in one turn.
        gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_LOOKS, OLD_LOOKS)
        gc.enable()
        started(node)
        async with asyncio.TaskGroup() as tasks:
            others = [*map(tasks.create_task, (reload_when(changed, node), *beside(node)))]
            await stopped.wait()
            for other in others:
                other.cancel()


async def reload_when(changed: "asyncio.Event", node: "Node") -> None:
    """Have the node read its certificates again on each signal."""
    while True:
        await changed.wait()
        changed.clear()
        await node.reload()


def allow_many_files() -> None:
    """Raise the limit of open files as far as this user may: each connection and segment is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def process_age_s() -> float:
    """Return the seconds since the operating system started this process."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_ticks = int(after_name[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def announce(node: "Node") -> None:
    """Log that the node serves clients."""
    from chordmq.logs import get_logger

    about = node.info()
    get_logger(__name__).info("ready", **about, start_ms=round(process_age_s() * 1000))

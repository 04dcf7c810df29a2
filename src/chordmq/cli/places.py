"""Reads where to start from the way people write it: earliest, 42, -10, 15m, 2026-11-15T08:00."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from chordmq.clock import Clock

if TYPE_CHECKING:
    from chordmq.client.cluster import Cluster
    from chordmq.client.offsets import Start, TopicPartition

PLACES = "earliest, latest, an offset, -N for the last N, a time, or how long ago (15m, 2h, 7d)"

_AGO = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_time(text: str, clock: Clock) -> int | None:
    """Return the milliseconds since 1970 that a time or an age means; None if it is neither."""
    ago = _AGO.fullmatch(text)
    if ago:
        return clock.now_ms() - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A time without a zone is meant as the clock on the wall shows it.
    return int((time if time.tzinfo else time.astimezone()).timestamp() * 1000)


def format_time(timestamp_ms: int) -> str:
    """Write a record's time in ISO form."""
    if timestamp_ms < 0:
        return "-"
    time = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def read_starts(
    text: str, cluster: "Cluster", partitions: Iterable["TopicPartition"]
) -> dict["TopicPartition", "Start"]:
    """Return the start of each partition that a text means; ValueError if it means nothing."""
    from chordmq.client.offsets import EARLIEST, LATEST, Start, ends_of

    pairs = list(partitions)
    fixed = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
    if text in fixed:
        return dict.fromkeys(pairs, fixed[text])
    if text.isdigit():
        return dict.fromkeys(pairs, Start(int(text)))
    if text.startswith("-") and text[1:].isdigit():
        ends = await ends_of(cluster, pairs)
        last = int(text[1:])
        return {pair: Start(max(start, end - last)) for pair, (start, end) in ends.items()}
    time_ms = read_time(text, cluster.clock)
    if time_ms is None:
        raise ValueError(f"{text!r} is no place to start; write {PLACES}")
    return dict.fromkeys(pairs, Start(timestamp_ms=time_ms))

"""Turns what devices measure into common names, units and time, by tables (pure).

A message of telemetry is a number, an object with a `value`, or an object with several metrics:

    21.5
    {"value": 70.7, "unit": "F", "timestamp": "2026-11-16T06:00:00Z"}
    {"t1": 70.7, "hum": 40}
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from chordmq.errors import InvalidRequest
from chordmq.iot.models import DeviceModel, Models

METRICS_MAX = 100
SECONDS_MAX = 100_000_000_000
"""A time that is a number beyond this is one in milliseconds."""

_NAME = re.compile(r"[^/+#\x00-\x1f\x7f\ud800-\udfff]{1,200}")


class Reading(NamedTuple):
    """A message of telemetry: the metric in its name, its content, its time, and the model."""

    metric: str
    content: bytes
    made_ms: int
    model: str = ""


class Measure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of one metric, in common words."""

    metric: str
    value: float
    unit: str | None = None
    time: datetime


def measures(reading: Reading, models: Models) -> list[Measure]:
    """Return what was measured; raise InvalidRequest if that makes no sense."""
    said = _said(reading.content)
    model = models.models.get(reading.model, DeviceModel())
    time = _time(said.get("timestamp"), reading.made_ms)
    unit = said.get("unit")
    if not (unit is None or isinstance(unit, str)):
        raise InvalidRequest("the unit is no text")
    rows = list(_values(said, reading.metric))
    if not rows:
        raise InvalidRequest("no value")
    if len(rows) > METRICS_MAX:
        raise InvalidRequest(f"more than {METRICS_MAX} metrics in one message")
    return [_measure(metric, value, unit, (models, model), time) for metric, value in rows]


def _said(content: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("not JSON and not a number") from None
    if isinstance(said, dict):
        return said
    return {"value": said}


def _values(said: dict[str, Any], metric: str) -> Iterator[tuple[str, float]]:
    """Yield metrics and values; one that is called `value` is that of the name."""
    for name, value in said.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name == "timestamp":
            continue
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"{name[:100]!r} is no name of a metric")
        if not math.isfinite(value):
            raise InvalidRequest(f"{name[:100]} is no number")
        yield (metric if name == "value" else name), float(value)


def _measure(
    said: str, value: float, unit: str | None, tables: tuple[Models, DeviceModel], time: datetime
) -> Measure:
    models, model = tables
    lower = said.lower()
    metric = model.metrics.get(lower) or models.metrics.get(lower, lower)
    unit = unit or model.units.get(metric)
    if unit is None:
        return Measure(metric=metric, value=value, time=time)
    found = models.units.get(unit)
    if found is None:
        raise InvalidRequest(f"unknown unit {unit[:40]}")
    return Measure(
        metric=metric, value=value * found.factor + found.shift, unit=found.unit, time=time
    )


def _time(said: Any, made_ms: int) -> datetime:
    """Return when something was measured: ISO 8601, seconds or milliseconds since 1970."""
    if said is None:
        return datetime.fromtimestamp(made_ms / 1000, UTC)
    try:
        if isinstance(said, str):
            found = datetime.fromisoformat(said)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        seconds = float(said)
        return datetime.fromtimestamp(seconds if seconds < SECONDS_MAX else seconds / 1000, UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        raise InvalidRequest("the timestamp is neither ISO 8601 nor a number") from None

"""Watches each device with what it remembers of it: values unlike the others, and silence.

A device's values of one metric are compared with their running mean and deviation; a device that
says nothing for some time is told as offline, and as online when it speaks again. The state is kept
by Spark, so that both survive a restart.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ALERT = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("messageId", T.StringType()),
        T.StructField("deviceId", T.StringType()),
        T.StructField("metric", T.StringType()),
        T.StructField("value", T.DoubleType()),
        T.StructField("unit", T.StringType()),
        T.StructField("time", T.TimestampType()),
        T.StructField("limit", T.DoubleType()),
        T.StructField("reason", T.StringType()),
    ]
)
MOMENTS = T.StructType(
    [
        T.StructField("number", T.LongType()),
        T.StructField("mean", T.DoubleType()),
        T.StructField("spread", T.DoubleType()),
    ]
)
SEEN = T.StructType([T.StructField("online", T.BooleanType()), T.StructField("last", T.LongType())])


class Moments(NamedTuple):
    """What is remembered of one metric: how many values, their mean, their squared distances."""

    number: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def add(self, value: float) -> "Moments":
        """Take in a value (Welford's way: no sum can grow without bound)."""
        number = self.number + 1
        mean = self.mean + (value - self.mean) / number
        return Moments(number, mean, self.spread + (value - self.mean) * (value - mean))

    def distance(self, value: float) -> float:
        """Return how many deviations a value lies from the mean."""
        deviation = (self.spread / (self.number - 1)) ** 0.5 if self.number > 1 else 0.0
        return abs(value - self.mean) / deviation if deviation > 0 else 0.0


class DeviceWatch(StatefulProcessor):
    """The machine of one device; Spark calls it with its readings and when its time is over."""

    def __init__(self, offline_ms: int, deviations: float = 4.0, values_min: int = 30) -> None:
        self._offline_ms = offline_ms
        self._deviations = deviations
        self._values_min = values_min

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name what is remembered."""
        self._handle = handle
        self._moments = handle.getMapState(
            "moments", T.StructType([T.StructField("metric", T.StringType())]), MOMENTS
        )
        self._seen = handle.getValueState("seen", SEEN)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Compare each value with those before it, and put off the alarm of silence."""
        (device,) = key
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for row in rows:
            moments = self._recall(row.metric)
            far = moments.distance(row.value)
            if moments.number >= self._values_min and far > self._deviations:
                yield self._unlike(device, row, moments, far)
            self._moments.updateValue((row.metric,), tuple(moments.add(row.value)))
        known = self._seen.get()
        if known is not None and not known[0]:
            yield _told(device, "online", now_ms, "the device speaks again")
        self._seen.update((True, now_ms))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(now_ms + self._offline_ms)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Row]:
        """Tell that a device is silent; once, until it speaks again."""
        (device,) = key
        known = self._seen.get()
        if known is not None and known[0]:
            self._seen.update((False, known[1]))
            text = f"nothing heard for {self._offline_ms / 1000:g} s"
            yield _told(device, "offline", expiredTimerInfo.getExpiryTimeInMs(), text)

    def close(self) -> None:
        """Do nothing: all there is, Spark keeps."""

    def _recall(self, metric: str) -> Moments:
        known = self._moments.getValue((metric,)) if self._moments.containsKey((metric,)) else None
        return Moments(*known) if known else Moments()

    def _unlike(self, device: str, row: Row, moments: Moments, far: float) -> Row:
        reason = f"{far:.1f} deviations from its mean of {moments.mean:.2f}"
        limit = moments.mean
        return Row(
            kind="anomaly",
            messageId=row.messageId,
            deviceId=device,
            metric=row.metric,
            value=row.value,
            unit=row.unit,
            time=row.time,
            limit=limit,
            reason=reason,
        )


def _told(device: str, kind: str, time_ms: int, reason: str) -> Row:
    return Row(
        kind=kind,
        messageId=f"{device}-{kind}-{time_ms}",
        deviceId=device,
        metric=None,
        value=None,
        unit=None,
        time=datetime.fromtimestamp(time_ms / 1000, tz=UTC),
        limit=None,
        reason=reason,
    )

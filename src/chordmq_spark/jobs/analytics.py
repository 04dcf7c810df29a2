"""Analytics: what only many readings show, as messages of the system."""

from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chordmq_spark.jobs.start import started
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sinks import publish
from chordmq_spark.sources import device_messages
from chordmq_spark.transforms.analytics import (
    AGGREGATES,
    ALERTS,
    aggregated,
)
from chordmq_spark.transforms.telemetry import clean, good
from chordmq_spark.transforms.watch import ALERT, DeviceWatch

WINDOWS, WATCH = "aggregates", "watch"


def start_aggregates(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query that aggregates readings per window of their own time."""
    readings = device_messages(spark, settings, f"pipeline-{WINDOWS}")
    readings = readings.transform(clean, settings.models).transform(good)
    frame = readings.transform(aggregated, settings.window, settings.late)
    write = partial(publish, name=AGGREGATES, query=WINDOWS, settings=settings)
    return started(frame, WINDOWS, settings, write)


def start_watch(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query that remembers devices: values unlike the others, and silence."""
    readings = device_messages(spark, settings, f"pipeline-{WATCH}")
    readings = readings.transform(clean, settings.models).transform(good)
    frame = readings.groupBy("deviceId").transformWithState(
        DeviceWatch(int(settings.offline_s * 1000)),
        outputStructType=ALERT,
        outputMode="update",
        timeMode="processingTime",
    )
    write = partial(publish, name=ALERTS, query=WATCH, settings=settings)
    return started(frame, WATCH, settings, write, trigger=settings.watch_trigger, mode="update")

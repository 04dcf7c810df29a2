"""Analytics: device messages to aggregates per window, and to alerts, in topics of the system."""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chordmq_spark.jobs.start import started
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sinks import to_topics
from chordmq_spark.sources import device_messages
from chordmq_spark.transforms.analytics import (
    AGGREGATES,
    ALERTS,
    aggregated,
    as_messages,
    exceeded,
)
from chordmq_spark.transforms.telemetry import clean, deduplicated, good
from chordmq_spark.transforms.watch import ALERT, DeviceWatch

WINDOWS, THRESHOLDS, WATCH = "aggregates", "thresholds", "watch"


def start_aggregates(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query that aggregates readings per window of their own time."""
    readings = device_messages(spark, settings, f"pipeline-{WINDOWS}")
    readings = readings.transform(clean, settings.models).transform(good)
    frame = readings.transform(aggregated, settings.window, settings.late)
    publish = partial(write, name=AGGREGATES, query=WINDOWS, settings=settings)
    return started(frame, WINDOWS, settings, publish)


def start_thresholds(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query that tells of readings outside of their thresholds, at once."""
    readings = device_messages(spark, settings, f"pipeline-{THRESHOLDS}")
    readings = readings.transform(clean, settings.models).transform(deduplicated).transform(good)
    frame = readings.transform(exceeded, settings.models)
    publish = partial(write, name=ALERTS, query=THRESHOLDS, settings=settings)
    return started(frame, THRESHOLDS, settings, publish)


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
    publish = partial(write, name=ALERTS, query=WATCH, settings=settings)
    return started(frame, WATCH, settings, publish, mode="update")


def write(
    frame: DataFrame, batch: int, *, name: str, query: str, settings: PipelineSettings
) -> None:
    """Publish the rows of one batch under a name of the system."""
    to_topics(as_messages(frame, name, settings.root), settings, query, batch)

"""Telemetry: device messages, cleaned, to the store; alerts and rejects to their topics.

One read serves all three: a query for each would decode everything three times.
"""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chordmq_spark.jobs.start import started
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sinks import to_store, to_topics
from chordmq_spark.sources import device_messages
from chordmq_spark.transforms.analytics import ALERTS, as_messages, exceeded
from chordmq_spark.transforms.telemetry import clean, deduplicated, good, rejected

NAME = "telemetry"


def start(spark: SparkSession, settings: PipelineSettings) -> StreamingQuery:
    """Start the query."""
    readings = device_messages(spark, settings, f"pipeline-{NAME}")
    readings = readings.transform(clean, settings.models).transform(deduplicated)
    return started(readings, NAME, settings, partial(write, settings=settings))


def write(readings: DataFrame, batch: int, *, settings: PipelineSettings) -> None:
    """Write one batch; Spark calls it again with the same rows if anything fails."""
    readings.persist()
    try:
        alerts = good(readings).transform(exceeded, settings.models)
        messages = alerts.transform(as_messages, ALERTS, settings.root)
        to_topics(messages.unionByName(rejected(readings)), settings, NAME, batch)
        to_store(good(readings), settings)
    finally:
        readings.unpersist()

"""Aggregates, thresholds and messages on tiny literal frames."""

import json
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from chordmq.iot.models import Models
from chordmq_spark.transforms.analytics import ALERTS, aggregated, as_messages, exceeded

TIME = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


def readings(spark: SparkSession, *rows: tuple[str, str, float, int]) -> DataFrame:
    return spark.createDataFrame(
        [
            (f"m{i}", device, metric, value, "C", TIME + timedelta(seconds=second))
            for i, (device, metric, value, second) in enumerate(rows)
        ],
        "messageId string, deviceId string, metric string, value double, unit string, "
        "time timestamp",
    )


def test_readings_are_summed_up_per_device_metric_and_window(spark: SparkSession) -> None:
    """P4, P8: count, mean, extremes and percentiles of each minute."""
    frame = readings(spark, ("d", "t", 1.0, 0), ("d", "t", 3.0, 59), ("d", "t", 9.0, 60))
    first, second = aggregated(frame).orderBy("start").collect()
    assert (first["count"], first["mean"], first["min"], first["max"]) == (2, 2.0, 1.0, 3.0)
    assert (first["p50"], first["p99"], first["unit"]) == (1.0, 3.0, "C")
    assert second.start.astimezone(UTC) == TIME + timedelta(minutes=1)


def test_a_reading_beyond_its_threshold_is_an_alert(spark: SparkSession) -> None:
    """P4: below or above, with the limit; metrics without thresholds are never told."""
    frame = readings(
        spark,
        ("hot", "temperature", 61.0, 0),
        ("cold", "temperature", -21.0, 0),
        ("fine", "temperature", 60.0, 0),
        ("other", "lux", 1e9, 0),
    )
    alerts = {row.deviceId: row for row in exceeded(frame, Models()).collect()}
    assert {device: row.reason for device, row in alerts.items()} == {
        "hot": "temperature is above 60.0",
        "cold": "temperature is below -20.0",
    }
    assert (alerts["hot"].kind, alerts["hot"].limit) == ("threshold", 60.0)


def test_results_are_messages_that_every_front_can_show(spark: SparkSession) -> None:
    """P4, E1, E2: an envelope under a name with levels; equal content has an equal id."""
    frame = exceeded(readings(spark, ("hot", "temperature", 61.0, 0)), Models())
    (row,), (again,) = as_messages(frame, ALERTS).collect(), as_messages(frame, ALERTS).collect()
    assert (row.topic, bytes(row.key)) == ("iotsphere.system", b"alerts")
    assert [(one.key, bytes(one.value)) for one in row.headers] == [
        ("chordmq.topic", b"iotsphere/system/alerts")
    ]
    message = json.loads(row.value)
    assert message["payload"]["deviceId"] == "hot"
    assert message["metadata"]["topic"] == "iotsphere/system/alerts"
    assert message["metadata"]["messageId"] == json.loads(again.value)["metadata"]["messageId"]

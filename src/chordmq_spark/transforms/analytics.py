"""Readings to windowed aggregates and to alerts, as messages for the topics of the system."""

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chordmq.iot.models import Models
from chordmq_spark.transforms.telemetry import NAME_HEADER

ROOT = "iotsphere"
AGGREGATES, ALERTS = "system/aggregates", "system/alerts"
PERCENTILES = (0.5, 0.95, 0.99)


def aggregated(readings: DataFrame, window: str = "1 minute", late: str = "1 minute") -> DataFrame:
    """Return count, mean, extremes and percentiles per device, metric and window of time."""
    percentiles = F.percentile_approx("value", list(PERCENTILES), 1000)
    return (
        readings.withWatermark("time", late)
        .groupBy(F.window("time", window), "deviceId", "metric")
        .agg(
            F.count("*").alias("count"),
            F.avg("value").alias("mean"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
            percentiles.alias("percentiles"),
            F.first("unit", ignorenulls=True).alias("unit"),
        )
        .select(
            F.col("window.start").alias("start"),
            F.col("window.end").alias("end"),
            *("deviceId", "metric", "unit", "count", "mean", "min", "max"),
            *(
                F.col("percentiles")[place].alias(f"p{share * 100:g}")
                for place, share in enumerate(PERCENTILES)
            ),
        )
    )


def exceeded(readings: DataFrame, models: Models) -> DataFrame:
    """Return an alert for each reading outside of its metric's thresholds."""
    low = _table({metric: least for metric, (least, _) in models.thresholds.items()})
    high = _table({metric: most for metric, (_, most) in models.thresholds.items()})
    metric, value = F.col("metric"), F.col("value")
    limit = F.when(value < low[metric], low[metric]).when(value > high[metric], high[metric])
    return (
        readings.withColumn("limit", limit)
        .where("limit IS NOT NULL")
        .select(
            F.lit("threshold").alias("kind"),
            *("messageId", "deviceId", "metric", "value", "unit", "time", "limit"),
            F.concat(
                metric,
                F.when(value < F.col("limit"), " is below ").otherwise(" is above "),
                F.col("limit").cast("string"),
            ).alias("reason"),
        )
    )


def as_messages(frame: DataFrame, name: str, root: str = ROOT) -> DataFrame:
    """Return rows as messages of a name with levels, in an envelope, for any client to read.

    The id of a message is made of its content, so that a repeated one is recognised.
    """
    payload = F.struct(*(F.col(column) for column in frame.columns))
    text = F.to_json(payload)
    full = f"{root}/{name}"
    metadata = F.struct(
        F.sha2(F.concat_ws("|", F.lit(full), text), 224).alias("messageId"),
        F.date_format(F.current_timestamp(), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX").alias("timestamp"),
        F.lit(full).alias("topic"),
        F.lit("pipeline").alias("source"),
        F.lit("notification").alias("messageType"),
        F.lit("1.0").alias("version"),
    )
    levels = full.split("/")
    return frame.select(
        F.lit(f"{levels[0]}.{levels[1]}").alias("topic"),
        F.lit(levels[2]).cast("binary").alias("key"),
        F.to_json(F.struct(metadata.alias("metadata"), payload.alias("payload")))
        .cast("binary")
        .alias("value"),
        F.array(
            F.struct(F.lit(NAME_HEADER).alias("key"), F.lit(full).cast("binary").alias("value"))
        ).alias("headers"),
    )


def _table(rows: dict[str, float]) -> Column:
    return F.create_map(*(F.lit(cell) for cell in chain.from_iterable(rows.items())))

"""Telemetry as it comes to one clean row per reading, each with its fate: good, or why it is not.

Rows go through as a column `problem`: null for a good reading, else the reason that its copy in the
dead-letter topic carries. Nothing is dropped on the way except repetitions.
"""

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from chordmq.iot.models import Models

ENVELOPE = T.StructType(
    [
        T.StructField(
            "metadata",
            T.StructType(
                [
                    T.StructField("messageId", T.StringType()),
                    T.StructField("timestamp", T.StringType()),
                    T.StructField("topic", T.StringType()),
                    T.StructField("source", T.StringType()),
                ]
            ),
        ),
        T.StructField("payload", T.StringType()),
        T.StructField("_bad", T.StringType()),
    ]
)
NAME_HEADER = "chordmq.topic"
DEVICES, TELEMETRY = "devices", "telemetry"
FUTURE_MAX = "5 minutes"
BYTES_MAX = 64 * 1024
# Only SQL lets the path of a JSON value be another column.
NAMED_LIKE_THE_METRIC = """
    try_cast(get_json_object(coalesce(said.payload, text), concat('$.', get(levels, 4))) AS double)
"""


def parsed(records: DataFrame) -> DataFrame:
    """Take records of a topic with headers; keep those of telemetry, with what they say.

    The device and the metric come from the name `…/devices/{device}/telemetry/{metric}`, in the
    record's header or in the envelope; the value from a bare number, or from `value` in an object,
    or from the field that is called like the metric.
    """
    name = F.get(F.filter("headers", _is_name), F.lit(0))["value"].cast("string")
    text = F.col("value").cast("string")
    said = F.from_json(text, ENVELOPE, {"columnNameOfCorruptRecord": "_bad"})
    frame = records.select("topic", "partition", "offset", "timestamp", "value", "headers")
    frame = frame.withColumn("text", text).withColumn("said", said)
    frame = frame.withColumn("name", F.coalesce(name, "said.metadata.topic"))
    frame = frame.withColumn("levels", F.split("name", "/"))
    return _telemetry(frame).select(*_fields())


def _telemetry(frame: DataFrame) -> DataFrame:
    """Keep messages of telemetry, and those whose name nobody knows, which are rejected later."""
    of_telemetry = (_level(1) == DEVICES) & (_level(3) == TELEMETRY)
    return frame.where(F.col("levels").isNull() | of_telemetry)


def _level(place: int) -> Column:
    """Return a level of the name; null if it has not so many."""
    return F.get("levels", F.lit(place))


def _is_name(header: Column) -> Column:
    return header["key"] == NAME_HEADER


def _fields() -> list[Column]:
    metric = _level(4)
    body = F.coalesce("said.payload", "text")
    number = F.coalesce(
        body.try_cast("double"),
        F.get_json_object(body, "$.value").try_cast("double"),
        F.expr(NAMED_LIKE_THE_METRIC),
    )
    said_time = F.coalesce("said.metadata.timestamp", F.get_json_object(body, "$.timestamp"))
    place = F.concat_ws("-", "topic", "partition", "offset")
    readable = body.try_cast("double").isNotNull() | body.startswith("{")
    return [
        F.coalesce("said.metadata.messageId", place).alias("messageId"),
        _level(2).alias("deviceId"),
        metric.alias("metric"),
        number.alias("value"),
        F.get_json_object(body, "$.unit").alias("unit"),
        F.coalesce(F.try_to_timestamp(said_time), "timestamp").alias("time"),
        F.when(F.length("text") > BYTES_MAX, "oversized")
        .when(~readable | F.col("text").isNull(), "not JSON and not a number")
        .when(F.col("levels").isNull(), "no topic name says which device this is")
        .when(metric.isNull() | (metric == ""), "the topic name does not say the metric")
        .when(number.isNull() | F.isnan(number), "no value")
        .when(
            said_time.isNotNull() & F.try_to_timestamp(said_time).isNull(),
            "the timestamp is not ISO 8601",
        )
        .alias("problem"),
        F.col("timestamp").alias("received"),
        F.col("topic").alias("sourceTopic"),
        F.col("partition").alias("sourcePartition"),
        F.col("offset").alias("sourceOffset"),
        F.col("value").alias("original"),
        F.col("headers").alias("originalHeaders"),
    ]


def normalised(readings: DataFrame, models: Models) -> DataFrame:
    """Give metrics and units their common names, and values their common unit."""
    names = _table(dict(models.metrics))
    units = _table({said: one.unit for said, one in models.units.items()})
    factors = _table({said: one.factor for said, one in models.units.items()})
    shifts = _table({said: one.shift for said, one in models.units.items()})
    unit = F.col("unit")
    lower = F.lower("metric")
    return readings.withColumns(
        {
            "metric": F.coalesce(names[lower], lower),
            "value": F.when(unit.isNull(), F.col("value")).otherwise(
                F.col("value") * factors[unit] + shifts[unit]
            ),
            "unit": units[unit],
            "problem": F.coalesce(
                "problem",
                F.when(
                    unit.isNotNull() & units[unit].isNull(), F.concat(F.lit("unknown unit "), unit)
                ),
            ),
        }
    )


def validated(readings: DataFrame, models: Models) -> DataFrame:
    """Refuse what cannot be true: outside of a metric's limits, or from the future."""
    least = _table({metric: low for metric, (low, _) in models.limits.items()})
    most = _table({metric: high for metric, (_, high) in models.limits.items()})
    metric, value = F.col("metric"), F.col("value")
    outside = (value < least[metric]) | (value > most[metric])
    early = F.col("time") > F.col("received") + F.expr(f"INTERVAL {FUTURE_MAX}")
    return readings.withColumn(
        "problem",
        F.coalesce(
            "problem",
            F.when(early, "from the future"),
            F.when(outside, F.concat(F.lit("outside of what "), metric, F.lit(" can be"))),
        ),
    )


def deduplicated(readings: DataFrame, within: str = "10 minutes") -> DataFrame:
    """Keep the first of several with one message id that are received within some time."""
    return readings.withWatermark("received", within).dropDuplicatesWithinWatermark(["messageId"])


def clean(records: DataFrame, models: Models) -> DataFrame:
    """Return every reading of a topic, with its problem if it has one; repetitions included."""
    return parsed(records).transform(normalised, models).transform(validated, models)


def good(readings: DataFrame) -> DataFrame:
    """Return the readings without a problem."""
    return readings.where("problem IS NULL").drop("problem", "original", "originalHeaders")


def rejected(readings: DataFrame) -> DataFrame:
    """Return what goes to the dead-letter topics: the bytes as they came, and why in headers."""
    reasons = {
        "chordmq.dead.reason": F.col("problem"),
        "chordmq.origin.topic": F.col("sourceTopic"),
        "chordmq.origin.partition": F.col("sourcePartition").cast("string"),
        "chordmq.origin.offset": F.col("sourceOffset").cast("string"),
    }
    headers = F.array(
        *(
            F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in reasons.items()
        )
    )
    return readings.where("problem IS NOT NULL").select(
        F.concat("sourceTopic", F.lit(".dlq")).alias("topic"),
        F.col("deviceId").cast("binary").alias("key"),
        F.col("original").alias("value"),
        F.concat("originalHeaders", headers).alias("headers"),
    )


def _table(rows: dict[str, str] | dict[str, float]) -> Column:
    """Return a table as an expression, which every task has with the plan: nothing to join."""
    return F.create_map(*(F.lit(cell) for cell in chain.from_iterable(rows.items())))

"""What goes into typed tables, on tiny literal frames."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from chordmq_spark.transforms.tables import beyond, day_of, hour_of, hourly

TIME = datetime(2026, 11, 1, 23, 59, 0, tzinfo=UTC)


def readings(spark: SparkSession, *rows: tuple[int, int, float, int]) -> DataFrame:
    """Return readings of a partition, an offset, a value and the minutes after TIME."""
    return spark.createDataFrame(
        [
            (partition, offset, "d", "temperature", value, "C", TIME + timedelta(minutes=minute))
            for partition, offset, value, minute in rows
        ],
        "sourcePartition int, sourceOffset long, deviceId string, metric string, value double, "
        "unit string, time timestamp",
    )


def test_only_what_lies_behind_the_end_of_a_table_is_new(spark: SparkSession) -> None:
    """P6: a batch that comes again has nothing new; a partition that came later has everything."""
    frame = readings(spark, (0, 4, 1.0, 0), (0, 5, 2.0, 0), (1, 9, 3.0, 0), (2, 0, 4.0, 0))
    fresh = beyond(frame, {0: 5, 1: 10})
    assert sorted(row.value for row in fresh.collect()) == [2.0, 4.0]
    assert beyond(frame, {}).count() == 4


def test_an_hour_is_summed_up_per_device_and_metric(spark: SparkSession) -> None:
    """P4, P5: count, mean, extremes and percentiles of the readings' own hours."""
    frame = readings(spark, (0, 0, 1.0, 0), (0, 1, 3.0, 1), (0, 2, 5.0, 60), (0, 3, 7.0, 61))
    rows = hourly(frame).select("*", hour_of("start").alias("hour")).orderBy("start").collect()
    assert [(row.hour, row["count"], row["mean"], row["min"], row["max"]) for row in rows] == [
        ("2026-11-01-23", 1, 1.0, 1.0, 1.0),
        ("2026-11-02-00", 2, 4.0, 3.0, 5.0),
        ("2026-11-02-01", 1, 7.0, 7.0, 7.0),
    ]
    assert (rows[1].p50, rows[1].p99, rows[1].unit) == (3.0, 5.0, "C")
    days = [row.day for row in frame.select(day_of("time").alias("day")).distinct().collect()]
    assert sorted(days) == ["2026-11-01", "2026-11-02"]

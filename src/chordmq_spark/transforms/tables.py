"""Readings to the rows of typed tables: those that a table has not, and where they belong in it."""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chordmq_spark.transforms.analytics import aggregated

HOUR = "1 hour"
PART = "part"
"""The column that says which file of a table a row belongs to; it is only in folders' names."""


def beyond(readings: DataFrame, ends: Mapping[int, int]) -> DataFrame:
    """Return the readings that lie behind what is taken over already, by partition of the log."""
    if not ends:
        return readings
    taken = F.create_map(*(F.lit(cell) for cell in chain.from_iterable(ends.items())))
    end = F.coalesce(taken[F.col("sourcePartition")], F.lit(0))
    return readings.where(F.col("sourceOffset") >= end)


def hourly(readings: DataFrame) -> DataFrame:
    """Return one row for each device, metric and hour; only of hours that are there whole."""
    return aggregated(readings, HOUR)


def day_of(time: str) -> Column:
    """Return the day of a moment, as folders are called."""
    return F.date_format(time, "yyyy-MM-dd")


def hour_of(time: str) -> Column:
    """Return the hour of a moment, as folders are called."""
    return F.date_format(time, "yyyy-MM-dd-HH")

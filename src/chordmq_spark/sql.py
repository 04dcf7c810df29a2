"""SQL over topics, what is archived and what is still in the log as one table, and typed tables."""

import json
from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from chordmq.archive.table import Archive, table_name
from chordmq.client.bulk import Bulk, BulkSettings
from chordmq_spark.transforms.tables import PART

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def register(
    spark: SparkSession,
    settings: BulkSettings,
    options: Mapping[str, str],
    archive: Archive | None,
    topics: Iterable[str],
) -> list[str]:
    """Make a view of each topic, and return their names: dots and dashes become `_`."""
    names = []
    with Bulk(settings) as broker:
        for topic in topics:
            frames = [live(spark, broker, options, archive, topic)]
            if archive is not None and archive.ends(topic):
                frames.append(archived(spark, archive, topic))
            whole = reduce(DataFrame.unionByName, frames)
            whole.createOrReplaceTempView(table_name(topic))
            names.append(table_name(topic))
    return names


def register_typed(spark: SparkSession, tables: Mapping[str, Iterable[str]]) -> None:
    """Make a view of each typed table; Spark reads the files by itself."""
    for name, paths in tables.items():
        spark.read.parquet(*paths).drop(PART).createOrReplaceTempView(name)


def archived(spark: SparkSession, archive: Archive, topic: str) -> DataFrame:
    """Return the archived part of a topic; Spark reads the files by itself."""
    frame = spark.read.parquet(*archive.files(topic).paths)
    return frame.selectExpr("*", f"'{topic}' AS topic").select(*COLUMNS)


def live(
    spark: SparkSession,
    broker: Bulk,
    options: Mapping[str, str],
    archive: Archive | None,
    topic: str,
) -> DataFrame:
    """Return what the log has beyond the archive: one space of offsets, nothing twice."""
    done = {} if archive is None else archive.ends(topic)
    places = broker.places_of([topic])
    first = broker.offsets(dict.fromkeys(places, -2))
    start = {str(index): max(done.get(index, 0), first[topic, index]) for _, index in places}
    reader = spark.read.format("chordmq").options(**options).option("subscribe", topic)
    reader = reader.option("includeHeaders", "true")
    return reader.option("startingOffsets", json.dumps({topic: start})).load().select(*COLUMNS)

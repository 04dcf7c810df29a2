"""SQL over topics, what is archived and what is still in the log as one table, and typed tables."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from chordmq.archive.table import Archive, Files, table_name
from chordmq.client.bulk import Bulk, BulkSettings
from chordmq.client.offsets import EARLIEST_TIME, TopicPartition
from chordmq_spark.transforms.tables import PART

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def register(
    spark: SparkSession,
    settings: BulkSettings,
    options: Mapping[str, str],
    archive: Archive | None,
    topics: Iterable[str],
) -> list[str]:
    """Make a view of each topic, and return their names: dots and dashes become `_`.

    Where the archive ends and which files it has is asked once: what is archived meanwhile is read
    from the log.
    """
    names = []
    with Bulk(settings) as broker:
        for topic in topics:
            files = Files([], {}) if archive is None else archive.files(topic)
            places = broker.places_like(re.escape(topic))
            frames = [live(spark, broker, options, places, files.ends)] if places else []
            if files.paths:
                frames.append(archived(spark, topic, files.paths))
            if frames:
                reduce(DataFrame.unionByName, frames).createOrReplaceTempView(table_name(topic))
                names.append(table_name(topic))
    return names


def register_typed(spark: SparkSession, tables: Mapping[str, Iterable[str]]) -> None:
    """Make a view of each typed table; Spark reads the files by itself."""
    for name, paths in tables.items():
        spark.read.parquet(*paths).drop(PART).createOrReplaceTempView(name)


def archived(spark: SparkSession, topic: str, paths: Iterable[str]) -> DataFrame:
    """Return the archived part of a topic; Spark reads the files by itself."""
    return spark.read.parquet(*paths).selectExpr("*", f"'{topic}' AS topic").select(*COLUMNS)


def live(
    spark: SparkSession,
    broker: Bulk,
    options: Mapping[str, str],
    places: Iterable[TopicPartition],
    done: Mapping[int, int],
) -> DataFrame:
    """Return what the log has beyond the archive: one space of offsets, nothing twice."""
    start: dict[str, dict[str, int]] = {}
    for (topic, index), first in broker.offsets(dict.fromkeys(places, EARLIEST_TIME)).items():
        start.setdefault(topic, {})[str(index)] = max(done.get(index, 0), first)
    reader = spark.read.format("chordmq").options(**options).option("subscribe", ",".join(start))
    reader = reader.option("includeHeaders", "true")
    return reader.option("startingOffsets", json.dumps(start)).load().select(*COLUMNS)

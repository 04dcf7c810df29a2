"""Topics as frames."""

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from chordmq_spark.settings import PipelineSettings


def device_messages(
    spark: SparkSession, settings: PipelineSettings, group: str, *, archive: Path | None = None
) -> DataFrame:
    """Return everything that devices say as a stream; the topic may appear later.

    With an archive, what the log has dropped is read there.
    """
    return (
        spark.readStream.format("chordmq")
        .options(**settings.connection())
        # By pattern, because a topic that is named has to exist already.
        .option("subscribePattern", re.escape(settings.devices))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.rows_per_batch))
        .option("includeHeaders", "true")
        .option("group", group)
        .option("archive", str(archive or ""))
        .load()
    )

"""Starts a streaming query the way all jobs do."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from chordmq_spark.settings import PipelineSettings

Write = Callable[[DataFrame, int], None]


def started(
    frame: DataFrame,
    name: str,
    settings: PipelineSettings,
    write: Write,
    *,
    trigger: str = "",
    mode: str = "append",
) -> StreamingQuery:
    """Start a query that hands each of its batches to `write`."""
    writer = frame.writeStream.queryName(name).outputMode(mode)
    writer = writer.option("checkpointLocation", str(settings.directory / "checkpoints" / name))
    if settings.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=trigger or settings.trigger)
    return writer.foreachBatch(write).start()

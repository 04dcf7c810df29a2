"""ChordMQ as a data source of Spark; Spark finds it by the name of this package."""

from pyspark_chordmq.source import ChordMQSource as DefaultSource

__all__ = ["DefaultSource"]

"""SQL sees a topic whole: files of the archive and the log behind them, each record once."""

from pathlib import Path

from pyspark.sql import SparkSession

from chordmq.archive.archiver import Archiver
from chordmq.archive.table import Archive, table_name
from chordmq.client.bulk import Bulk, BulkSettings
from chordmq_spark.sql import register
from tests.archive.test_archiver import fill, rows
from tests.running_node import RunningNode


def test_archive_and_log_are_one_table(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P5: ad-hoc SQL over both together, crossing at the offset where the archive ends."""
    settings = BulkSettings(bootstrap=node.bootstrap)
    archive = Archive(tmp_path / "archive")
    fill(node, name, rows(30))
    with Bulk(settings) as broker:
        Archiver(broker, archive).archive(name)
    fill(node, name, rows(12, start=30))
    options = {"kafka.bootstrap.servers": node.bootstrap}
    (view,) = register(spark, settings, options, archive, [name])
    assert view == table_name(name)
    query = f"SELECT count(*), count(DISTINCT string(value)), max(int(string(value))) FROM {view}"
    assert tuple(spark.sql(query).first() or ()) == (42, 42, 41)
    archive.close()

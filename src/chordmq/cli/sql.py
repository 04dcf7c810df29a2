"""Answers SQL over topics: what is archived and what is in the log, together."""

import re
from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import EXIT_REFUSED, EXIT_USAGE, fail, show_json, show_table
from chordmq.cli.pipeline import spark_or_fail

_WORD = re.compile(r"[A-Za-z0-9_]+")


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT; topics are its tables.")],
    bootstrap: Bootstrap = None,
    directory: Annotated[Path, typer.Option(help="The archive.")] = Path("data/archive"),
    rows_max: Annotated[int, typer.Option("--rows", help="At most so many rows.")] = 1000,
    as_json: Json = False,
) -> None:
    """Ask topics by SQL, on local Spark; the first answer takes some ten seconds.

    A table is called like its topic with `_` for dots and dashes; its columns are key, value,
    topic, partition, offset, timestamp, timestampType and headers. Beside them are the tables that
    `chordmq pipeline run tables` makes: readings and hours, after the devices' root.

    \b
      chordmq sql "SELECT count(*), min(timestamp) FROM orders"
      chordmq sql "SELECT string(key), max(offset) FROM iotsphere_devices GROUP BY 1"
      chordmq sql "SELECT deviceId, start, mean FROM iotsphere_hourly WHERE metric = 'temperature'"
    """
    spark_or_fail()
    from pyspark.errors import PySparkException

    from chordmq.archive.table import Archive, table_name
    from chordmq.client.bulk import Bulk, BulkSettings
    from chordmq_spark.session import start_spark
    from chordmq_spark.settings import PipelineSettings
    from chordmq_spark.sql import register, register_typed

    settings = BulkSettings(
        bootstrap=address(bootstrap), connection=connection(), open_patience_s=0.0
    )
    words = set(_WORD.findall(query))
    with Bulk(settings) as broker:
        topics = {name for name, _ in broker.places_like(".*") if table_name(name) in words}
    typed = {name: paths for name, paths in _typed(directory).items() if name in words}
    if not topics and not typed:
        fail("the query names no topic; `chordmq topics list` shows them", EXIT_USAGE)
    who = settings.connection.security
    options = PipelineSettings(bootstrap=settings.bootstrap, security=who).connection()
    archive = Archive(directory) if directory.exists() else None
    spark = start_spark("chordmq-sql", settings={"spark.log.level": "ERROR"})
    try:
        register_typed(spark, typed)
        register(spark, settings, options, archive, sorted(topics))
        frame = spark.sql(query).limit(rows_max)
        rows = [[_plain(cell) for cell in row] for row in frame.collect()]
        columns = frame.columns
    except PySparkException as error:
        fail(str(error).splitlines()[0], EXIT_REFUSED, as_json=as_json)
    finally:
        spark.stop()
        if archive is not None:
            archive.close()
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show_table(columns, rows)


def _typed(directory: Path) -> dict[str, list[str]]:
    """Return the files of the typed tables beside an archive."""
    from chordmq.archive.typed import TypedTables

    if not directory.exists():
        return {}
    with TypedTables(directory) as tables:
        return tables.named()


def _plain(cell: object) -> object:
    """Return a cell as people and JSON read it."""
    if isinstance(cell, bytes | bytearray):
        return cell.decode("utf-8", "backslashreplace")
    return cell if isinstance(cell, int | float | str | bool | None) else str(cell)

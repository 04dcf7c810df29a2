"""Answers SQL over topics: what is archived and what is in the log, together."""

import re
from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import fail, show_json, show_table
from chordmq.cli.pipeline import spark_or_fail
from chordmq.cli.running import run

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

    from chordmq.archive.table import Archive
    from chordmq.client.bulk import BulkSettings
    from chordmq_spark.session import start_spark
    from chordmq_spark.settings import PipelineSettings
    from chordmq_spark.sql import register, register_typed

    settings = BulkSettings(
        bootstrap=address(bootstrap), connection=connection(), open_patience_s=0.0
    )
    live = run(_topics(settings.bootstrap), as_json=as_json)
    archive = Archive(directory) if directory.exists() else None
    words = set(_WORD.findall(query))
    topics = _tables({*live, *(archive.topics() if archive else ())}, words, as_json=as_json)
    typed = {name: paths for name, paths in _typed(directory).items() if name in words}
    if not topics and not typed:
        message = "the query names no topic; `chordmq topics list` shows them"
        fail(message, EXIT_USAGE, as_json=as_json)
    who = settings.connection.security
    options = PipelineSettings(bootstrap=settings.bootstrap, security=who).connection()
    spark = start_spark("chordmq-sql", settings={"spark.log.level": "ERROR"})
    try:
        register_typed(spark, typed)
        register(spark, settings, options, archive, topics)
        frame = spark.sql(query).limit(rows_max)
        rows = [[_plain(cell) for cell in row] for row in frame.collect()]
        columns = frame.columns
    except PySparkException as error:
        fail(str(error).strip().splitlines()[0], EXIT_REFUSED, as_json=as_json)
    finally:
        spark.stop()
        if archive is not None:
            archive.close()
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show_table(columns, rows)


async def _topics(bootstrap: str) -> set[str]:
    from chordmq.client.admin import Admin

    async with Admin(bootstrap, connection()) as admin:
        return {one.name for one in await admin.topics() if not one.internal}


def _tables(topics: set[str], words: set[str], *, as_json: bool) -> list[str]:
    """Return the topics whose tables a query names; no two may have one table."""
    from chordmq.archive.table import table_name

    tables: dict[str, str] = {}
    for topic in sorted(topics):
        name = table_name(topic)
        if name in words and name in tables:
            message = f"{tables[name]} and {topic} would both be the table {name}"
            fail(message, EXIT_USAGE, as_json=as_json)
        if name in words:
            tables[name] = topic
    return list(tables.values())


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

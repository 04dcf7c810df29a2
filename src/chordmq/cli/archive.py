"""Archives topics to Parquet, shows what is archived, and puts it back into topics."""

import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import fail, progress, say, show_json, show_table
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.archive.archiver import Moved
    from chordmq.archive.table import Archive

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Keep topics for ever, as Parquet files in an Iceberg table.

    \b
      chordmq archive run orders readings
      chordmq archive run orders --every 60 --keep-days 7
      chordmq archive list
      chordmq archive compact orders
      chordmq archive expire orders --days 365
      chordmq archive replay orders --into orders-again --rate 1000
    """,
)

Directory = Annotated[Path, typer.Option("--directory", help="Where the archive lies.")]
Topic = Annotated[str, typer.Argument(help="An archived topic.")]
DAY_MS = 24 * 3600 * 1000
DEFAULT_DIRECTORY = Path("data/archive")


@app.command("run")
def run_(
    topics: Annotated[list[str], typer.Argument(help="What to archive.")],
    bootstrap: Bootstrap = None,
    directory: Directory = DEFAULT_DIRECTORY,
    every: Annotated[float, typer.Option(help="Seconds between rounds; 0 for one only.")] = 0.0,
    keep_days: Annotated[
        float | None,
        typer.Option(min=0, help="Delete from the log what is archived and older, and only that."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Archive what is committed and not archived yet; each record once, whatever dies meanwhile.

    Whoever else changes the topic's archive meanwhile is waited for, and waits in turn.

    With --keep-days the topics' own retention is switched off: a log is then only ever cut where
    the archive has been, however late the archive is.

    \b
      chordmq archive run orders
      chordmq archive run orders --every 60 --keep-days 7
    """
    installed_or_fail()
    from chordmq.archive.archiver import Archiver
    from chordmq.archive.table import Archive, TableNameTaken
    from chordmq.client.bulk import Bulk, BulkSettings
    from chordmq.client.errors import ClientError

    archive = Archive(directory, tell=say)
    settings = BulkSettings(
        bootstrap=address(bootstrap), connection=connection(), open_patience_s=0.0
    )
    try:
        if keep_days is not None:
            run(keep_all(topics, settings.bootstrap))
        with Bulk(settings) as broker:
            archiver = Archiver(broker, archive)
            while True:
                rows = [(topic, archiver.archive(topic)) for topic in topics]
                for topic in topics if keep_days is not None else ():
                    archiver.trim(topic, int((keep_days or 0) * DAY_MS))
                show_moved(rows, as_json=as_json)
                if not every:
                    return
                time.sleep(every)
    except (ClientError, TableNameTaken) as error:
        fail(str(error), EXIT_REFUSED, as_json=as_json)
    finally:
        archive.close()


def show_moved(rows: list[tuple[str, "Moved"]], *, as_json: bool) -> None:
    """Show what one round has archived, and what came too late for it."""
    if as_json:
        show_json([{"topic": topic, **asdict(one)} for topic, one in rows])
        return
    show_table(
        ("TOPIC", "#RECORDS", "#FILES", "#BYTES", "#LOST"),
        [(topic, one.records, one.files, one.bytes, one.lost) for topic, one in rows],
    )


async def keep_all(topics: list[str], bootstrap: str) -> None:
    """Switch the retention of topics off."""
    from chordmq.client.admin import Admin

    async with Admin(bootstrap, connection()) as admin:
        for topic in topics:
            await admin.alter_settings(topic, {"retention.ms": "-1", "retention.bytes": "-1"})


@app.command("compact")
def compact_(topic: Topic, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Join the small files of a topic, those of one partition and day.

    \b
      chordmq archive compact orders
    """
    archive = archived_or_fail(topic, directory)
    from chordmq.archive.upkeep import compacted

    joined = compacted(archive, topic)
    archive.close()
    say(f"{joined} files are joined to larger ones")


@app.command("expire")
def expire_(
    topic: Topic,
    days: Annotated[int, typer.Option(min=1, help="Keep so many days, counted from today.")],
    directory: Directory = DEFAULT_DIRECTORY,
) -> None:
    """Drop the days of a topic that are older, for good.

    \b
      chordmq archive expire orders --days 365
    """
    archive = archived_or_fail(topic, directory)
    from chordmq.archive.upkeep import expired

    dropped = expired(archive, topic, datetime.now(UTC).date() - timedelta(days=days))
    archive.close()
    say(f"{dropped} files are dropped")


@app.command("list")
def list_(directory: Directory = DEFAULT_DIRECTORY, as_json: Json = False) -> None:
    """Show which topics are archived, and how far.

    \b
      chordmq archive list
    """
    installed_or_fail()
    from chordmq.archive.table import Archive

    archive = Archive(directory)
    found = {topic: archive.files(topic) for topic in archive.topics()}
    archive.close()
    if as_json:
        show_json([{"topic": t, "files": len(f.paths), "ends": f.ends} for t, f in found.items()])
        return
    show_table(
        ("TOPIC", "#PARTITIONS", "#OFFSETS", "#FILES"),
        [(t, len(f.ends), sum(f.ends.values()), len(f.paths)) for t, f in found.items()],
    )


@app.command("replay")
def replay_(
    topic: Topic,
    into: Annotated[str, typer.Option("--into", help="The topic that gets the records.")],
    bootstrap: Bootstrap = None,
    directory: Directory = DEFAULT_DIRECTORY,
    from_time: Annotated[int | None, typer.Option(help="Records since then, in ms.")] = None,
    to_time: Annotated[int | None, typer.Option(help="Records before then, in ms.")] = None,
    from_offset: Annotated[int | None, typer.Option(help="Records from this offset on.")] = None,
    to_offset: Annotated[int | None, typer.Option(help="Records before this offset.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Records a second; 0 for no limit.")] = 0.0,
) -> None:
    """Put an archived range back into a topic, in the order of each partition.

    \b
      chordmq archive replay orders --into orders-again
      chordmq archive replay orders --into test --from-offset 100 --to-offset 200 --rate 50
    """
    archive = archived_or_fail(topic, directory)
    from chordmq.archive.replay import Wanted, counted, replay
    from chordmq.clock import SystemClock

    wanted = Wanted(
        topic=topic, into=into, start_ms=from_time, stop_ms=to_time, start=from_offset,
        stop=to_offset, rate=rate,
    )  # fmt: skip
    with progress("records") as bar:
        task = bar.add_task(f"{topic} into {into}", total=counted(archive, wanted), rate="")

        async def work() -> int:
            return await replay(
                archive,
                wanted,
                address(bootstrap),
                SystemClock(),
                connection=connection(),
                tell=lambda count: bar.advance(task, count),
            )

        sent = run(work())
    archive.close()
    say(f"{sent} records are in {into}")


def archived_or_fail(topic: str, directory: Path) -> "Archive":
    """Open an archive that has the topic, or end with what is wrong."""
    installed_or_fail()
    from chordmq.archive.table import Archive

    archive = Archive(directory, tell=say)
    if topic not in archive.topics():
        fail(f"{topic} is not archived below {directory}", EXIT_USAGE)
    return archive


def installed_or_fail() -> None:
    """End with what to install if a package is missing."""
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None or find_spec("pyarrow") is None:
        fail("archives need two packages; run: pip install 'chordmq[archive]'", EXIT_USAGE)

"""Archives topics to Parquet, shows what is archived, and puts it back into topics."""

import time
from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import EXIT_USAGE, fail, progress, say, show_json, show_table
from chordmq.cli.running import run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Keep topics for ever, as Parquet files in an Iceberg table.

    \b
      chordmq archive run orders readings
      chordmq archive run orders --every 60
      chordmq archive list
      chordmq archive replay orders --into orders-again --rate 1000
    """,
)

Directory = Annotated[Path, typer.Option("--directory", help="Where the archive lies.")]
DEFAULT_DIRECTORY = Path("data/archive")


@app.command("run")
def run_(
    topics: Annotated[list[str], typer.Argument(help="What to archive.")],
    bootstrap: Bootstrap = None,
    directory: Directory = DEFAULT_DIRECTORY,
    every: Annotated[float, typer.Option(help="Seconds between rounds; 0 for one only.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Archive what is committed and not archived yet; each record once, whatever dies meanwhile.

    \b
      chordmq archive run orders
      chordmq archive run orders --every 60
    """
    installed_or_fail()
    from chordmq.archive.archiver import Archiver
    from chordmq.archive.table import Archive
    from chordmq.client.bulk import Bulk, BulkSettings
    from chordmq.client.errors import ClientError

    archive = Archive(directory)
    settings = BulkSettings(bootstrap=address(bootstrap), connection=connection())
    try:
        with Bulk(settings) as broker:
            archiver = Archiver(broker, archive)
            while True:
                rows = [(topic, archiver.archive(topic)) for topic in topics]
                if as_json:
                    show_json(
                        [{"topic": t, "records": m.records, "files": m.files} for t, m in rows]
                    )
                else:
                    show_table(
                        ("TOPIC", "#RECORDS", "#FILES", "#BYTES"),
                        [(topic, one.records, one.files, one.bytes) for topic, one in rows],
                    )
                if not every:
                    return
                time.sleep(every)
    except ClientError as error:
        fail(str(error), 1, as_json=as_json)
    finally:
        archive.close()


@app.command("list")
def list_(directory: Directory = DEFAULT_DIRECTORY, as_json: Json = False) -> None:
    """Show which topics are archived, and how far."""
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
    topic: Annotated[str, typer.Argument(help="An archived topic.")],
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
    installed_or_fail()
    from chordmq.archive.replay import Wanted, counted, replay
    from chordmq.archive.table import Archive
    from chordmq.clock import SystemClock

    archive = Archive(directory)
    if topic not in archive.topics():
        fail(f"{topic} is not archived below {directory}", EXIT_USAGE)
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


def installed_or_fail() -> None:
    """End with what to install if a package is missing."""
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None or find_spec("pyarrow") is None:
        fail("archives need two packages; run: pip install 'chordmq[archive]'", EXIT_USAGE)

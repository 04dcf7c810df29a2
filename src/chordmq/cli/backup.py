"""Backs up a node while it runs, checks a backup, and puts it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED
from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.options import Json
from chordmq.cli.output import fail, progress, say, show_json, thousands

if TYPE_CHECKING:
    from chordmq.storage.backup import Manifest, Tell

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Back up a node while it runs, check a backup, and put it back.

    \b
      chordmq backup create /backups/monday
      chordmq backup create /backups/tuesday --previous /backups/monday
      chordmq backup verify /backups/tuesday
      chordmq backup restore /backups/tuesday --data-dir ./data
    """,
)

Backup = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the backup is.")]


@app.command()
def create(
    target: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where it goes; a new one.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Of a node that is stopped; one that runs says itself where it is."),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="An earlier backup: what it has is linked instead of copied again."),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Copy everything a node holds, as it is at one moment, while clients go on.

    Run it on the machine of the node, as a user who may read and write its data directory.

    \b
      chordmq backup create /backups/monday
    """
    import msgspec

    from chordmq.storage.backup import Position
    from chordmq.storage.backup import create as create_backup

    with _failing(as_json), _shown("back up") as tell:
        if data_dir is not None:
            with _owned(data_dir):
                made = create_backup(data_dir, target, None, previous=previous, tell=tell)
        else:
            found = call(url, "GET", "/v1/storage/positions", as_json=as_json)
            positions = msgspec.convert(found["logs"], dict[str, Position])
            place = Path(found["data_dir"])
            made = create_backup(place, target, positions, previous=previous, tell=tell)
    _show(made, target, "is the backup", as_json)


@app.command()
def verify(backup: Backup, as_json: Json = False) -> None:
    """Check every byte of a backup against its checksums.

    \b
      chordmq backup verify backups/monday
    """
    from chordmq.storage.backup import verify as verify_backup

    with _failing(as_json), _shown("verify") as tell:
        made = verify_backup(backup, tell)
    _show(made, backup, "is whole", as_json)


@app.command()
def restore(
    backup: Backup,
    data_dir: Annotated[Path, typer.Option(help="Where the node will run; empty, or not there.")],
    as_json: Json = False,
) -> None:
    """Put a backup into a new data directory; the first start reads and checks every record.

    \b
      chordmq backup restore backups/monday --data-dir data
    """
    from chordmq.storage.backup import restore as restore_backup

    with _failing(as_json), _shown("restore") as tell:
        made = restore_backup(backup, data_dir, tell)
    _show(made, data_dir, "is ready for a node", as_json)


@contextmanager
def _owned(data_dir: Path) -> Iterator[None]:
    """Keep a node from starting meanwhile."""
    from chordmq.storage.lock import DirectoryLock

    if not data_dir.is_dir():
        fail(f"{data_dir} is not there", EXIT_REFUSED)
    lock = DirectoryLock(data_dir)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _failing(as_json: bool) -> Iterator[None]:
    from chordmq.errors import CannotStart, ChordMQError

    try:
        yield
    except (ChordMQError, CannotStart, OSError) as error:
        fail(str(error), EXIT_REFUSED, as_json=as_json, name=type(error).__name__)


@contextmanager
def _shown(what: str) -> Iterator["Tell"]:
    with progress("bytes") as display:
        task = display.add_task(what, total=None, rate="")

        def tell(done: int, total: int) -> None:
            display.update(task, completed=done, total=total, rate="")

        yield tell


def _show(made: "Manifest", place: Path, what: str, as_json: bool) -> None:
    if as_json:
        show_json({"directory": str(place), "made": made.made, "bytes": made.size,
                   "files": len(made.files)})  # fmt: skip
    else:
        say(f"{place} {what}: {len(made.files)} files, {thousands(made.size)} bytes, {made.made}")

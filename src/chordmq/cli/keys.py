"""Makes and rotates the keys that encrypt the values of records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.options import Json
from chordmq.cli.output import fail, show_json, show_table
from chordmq.cli.places import format_time

if TYPE_CHECKING:
    from chordmq.encryption.envelope import Envelope
    from chordmq.encryption.keyring import KeyRing

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Make and rotate the keys that encrypt records before they leave the producer.

    \b
      chordmq keys create orders.keys
      chordmq produce orders --encrypt-with orders.keys
      chordmq consume orders --encrypt-with orders.keys
      chordmq keys rotate orders.keys
    """,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys.")]
EncryptWith = Annotated[
    str | None,
    typer.Option(
        "--encrypt-with",
        metavar="KEYS",
        envvar="CHORDMQ_ENCRYPT_WITH",
        show_envvar=False,
        help="File of keys, or env:NAME; records are encrypted, and read only if they are. "
        "Or set CHORDMQ_ENCRYPT_WITH.",
    ),
]


@app.command()
def create(file: File, as_json: Json = False) -> None:
    """Make a file with one key; whoever has it can read and write the records.

    \b
      chordmq keys create orders.keys
    """
    from chordmq.clock import SystemClock
    from chordmq.encryption.keyring import new_ring

    _write(file, new_ring(SystemClock().now_ms()), is_new=True, as_json=as_json)


@app.command()
def rotate(file: File, as_json: Json = False) -> None:
    """Add a key, which encrypts from now on; the older ones still read what they encrypted.

    Running producers take it when their data key is next renewed, within an hour.

    \b
      chordmq keys rotate orders.keys
    """
    from chordmq.clock import SystemClock

    ring = _read(file, as_json).rotated(SystemClock().now_ms())
    _write(file, ring, is_new=False, as_json=as_json)


@app.command("list")
def list_keys(file: File, as_json: Json = False) -> None:
    """Show the ids and ages of the keys in a file, and never the keys.

    \b
      chordmq keys list orders.keys
    """
    ring = _read(file, as_json)
    rows = [
        {"id": one.id, "created": format_time(one.created_ms), "current": one.id == ring.current}
        for one in ring.keys
    ]
    if as_json:
        show_json(rows)
        return
    show_table(["KEY", "CREATED", "CURRENT"], [tuple(row.values()) for row in rows])


def envelope(keys: str | None, *, as_json: bool = False) -> "Envelope | None":
    """Return what encrypts and decrypts with these keys; nothing without keys."""
    if keys is None:
        return None
    from chordmq.clock import SystemClock
    from chordmq.encryption.envelope import Envelope
    from chordmq.encryption.errors import InvalidKeys
    from chordmq.encryption.providers import key_provider

    try:
        return Envelope(key_provider(keys), SystemClock())
    except InvalidKeys as error:
        fail(str(error), EXIT_USAGE, as_json=as_json)


def _read(file: Path, as_json: bool) -> "KeyRing":
    from chordmq.encryption.errors import InvalidKeys
    from chordmq.encryption.keyring import read_ring

    try:
        return read_ring(file.read_bytes())
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", EXIT_USAGE, as_json=as_json)
    except InvalidKeys as error:
        fail(f"{file}: {error}", EXIT_USAGE, as_json=as_json)


def _write(file: Path, ring: "KeyRing", *, is_new: bool, as_json: bool) -> None:
    from chordmq.encryption.errors import InvalidKeys
    from chordmq.encryption.providers import write_ring

    try:
        write_ring(file, ring, is_new=is_new)
    except InvalidKeys as error:
        fail(str(error), EXIT_USAGE, as_json=as_json)
    if as_json:
        show_json({"file": str(file), "current": ring.current, "keys": len(ring.keys)})
        return
    print(f"{file} has {len(ring.keys)} keys; {ring.current} encrypts from now on")

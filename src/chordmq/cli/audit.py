"""Shows, checks and exports the audit trail: from a node, from a data directory or from a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.identity import connection
from chordmq.cli.options import Bootstrap, Json, address
from chordmq.cli.output import fail, show_facts, show_json, show_table
from chordmq.cli.places import format_time
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.broker.audit.chain import Head, Stored

POLL_S = 1.0

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show, check and export the audit trail: who did what, and who was refused.

    \b
      chordmq audit show
      chordmq audit verify --public-key audit.pem
      chordmq audit verify --data-dir /backup/chordmq --head head.json
      chordmq audit export > audit.jsonl
    """,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Read a data directory, or a copy, and not a node."
    ),
]
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Read what `audit export` wrote.")
]


@app.command()
def show(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Newest records.")] = 50,
    act: Annotated[str, typer.Option("--act", help="Only acts that begin so.")] = "",
    who: Annotated[str, typer.Option("--who", help="Only this principal.")] = "",
    data_dir: DataDir = None,
    file: File = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Print the newest records.

    \b
      chordmq audit show --act login
      chordmq audit show --who User:alice -n 1000 --json
    """
    found = [json.loads(one.text) for one in _records(bootstrap, data_dir, file, as_json)]
    rows = [row for row in found if row["act"].startswith(act) and who in ("", row["who"])]
    rows = rows[-count:]
    if as_json:
        show_json(rows)
        return
    columns = ["who", "host", "act", "obj", "result"]
    show_table(
        ["#SEQ", "TIME", *(name.upper() for name in columns)],
        [(row["seq"], format_time(row["ts"]), *(row[name] for name in columns)) for row in rows],
    )


@app.command()
def verify(
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The log's public key; keep a copy elsewhere."),
    ] = None,
    heads: Annotated[
        list[Path] | None,
        typer.Option("--head", metavar="FILE", help="A head kept elsewhere; may be repeated."),
    ] = None,
    first: Annotated[
        int, typer.Option(help="Oldest record that must be there, if retention removes any.")
    ] = 0,
    data_dir: DataDir = None,
    file: File = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Check every hash and signature, and name the first record that is not what was written.

    The exit status is 1 if anything was edited, removed, inserted or cut off.

    \b
      chordmq audit verify --data-dir data
      chordmq audit verify --public-key audit.pem --head head.json
    """
    from chordmq.broker.audit import chain, files

    if public_key is None and data_dir is None:
        fail("give --public-key; a node cannot vouch for itself", EXIT_USAGE, as_json=as_json)
    try:
        kept = [files.read_head(path) for path in heads or []]
        kept += files.kept_heads(data_dir) if data_dir else []
        place = public_key or Path(data_dir or "", files.DIRECTORY, files.PUBLIC_FILE)
        key = files.load_public_key(place)
    except (OSError, ValueError) as error:
        fail(str(error), EXIT_USAGE, as_json=as_json)
    verdict = chain.verify(_records(bootstrap, data_dir, file, as_json), kept, key, first=first)
    if verdict.fault is not None:
        fault = verdict.fault
        message = f"the audit trail was changed; first bad record {fault.seq}: {fault.reason}"
        fail(message, EXIT_REFUSED, as_json=as_json, first_bad=fault.seq)
    facts: dict[str, Any] = {
        "records": verdict.records,
        "signatures": verdict.heads,
        "unsigned": verdict.unsigned,
        "last": verdict.tip.seq,
        "digest": verdict.tip.digest,
    }
    if as_json:
        show_json(facts)
        return
    print("the audit trail is whole")
    show_facts(facts)


@app.command()
def export(data_dir: DataDir = None, bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """Print every record, one line of JSON each, byte for byte as it was hashed.

    \b
      chordmq audit export > audit.jsonl
      chordmq audit verify --file audit.jsonl --public-key audit.pem
    """
    for one in _records(bootstrap, data_dir, None, as_json):
        print(one.text.decode())


@app.command()
def head(data_dir: DataDir = None, bootstrap: Bootstrap = None, as_json: Json = False) -> None:
    """Print the newest signed head, to be kept where nobody who can change the log can.

    \b
      chordmq audit head > /elsewhere/head.json
    """
    import msgspec

    newest = list(_heads(_records(bootstrap, data_dir, None, as_json)))[-1:]
    if not newest:
        fail("no head was signed yet", EXIT_REFUSED, as_json=as_json)
    print(msgspec.json.encode(newest[0]).decode())


def _heads(records: Iterator["Stored"]) -> Iterator["Head"]:
    from chordmq.broker.audit.chain import HEAD, Head, read_entry

    for stored in records:
        entry = read_entry(stored.offset, stored.text)
        if entry.act == HEAD:
            yield Head(seq=entry.seq - 1, ts=entry.ts, digest=entry.prev, signature=entry.result)


def _records(
    bootstrap: str | None, data_dir: Path | None, file: Path | None, as_json: bool
) -> Iterator["Stored"]:
    from chordmq.broker.audit.chain import Stored, digest_of
    from chordmq.broker.audit.files import records_in

    if data_dir is not None:
        if not (data_dir / "topics").is_dir():
            fail(f"{data_dir} is no data directory", EXIT_USAGE, as_json=as_json)
        return records_in(data_dir)
    if file is not None:
        lines = enumerate(file.read_bytes().splitlines())
        return (
            Stored(json.loads(line).get("seq", at), digest_of(line), line) for at, line in lines
        )
    return iter(run(_fetched(address(bootstrap)), as_json=as_json))


async def _fetched(bootstrap: str) -> list["Stored"]:
    from chordmq.broker.audit.files import TOPIC, stored
    from chordmq.client.consumer import Consumer
    from chordmq.client.offsets import ends_of

    found: list[Stored] = []
    async with Consumer(bootstrap, connection=connection()) as consumer:
        await consumer.assign_topic(TOPIC)
        ((_, end),) = (await ends_of(consumer.cluster, [(TOPIC, 0)])).values()
        while consumer.position(TOPIC, 0) < end:
            chunk = await consumer.poll(POLL_S)
            found += [stored(record) for record in chunk.records] if chunk else []
    return found

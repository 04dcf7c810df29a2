"""Follows databases: runs sources, looks at them, asks for snapshots, compares with another."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.options import Json
from chordmq.cli.output import fail, say, show_json, show_table
from chordmq.cli.running import run

if TYPE_CHECKING:
    from chordmq.cdc.settings import Plan, Source

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Turn the changes of PostgreSQL and MongoDB into messages, each exactly once.

    \b
      chordmq cdc check shop.yaml                    what does the database lack?
      chordmq cdc run shop.yaml                      follow it
      chordmq cdc status shop.yaml                   how far is it?
      chordmq cdc snapshot shop.yaml public.orders   read a table again
      chordmq cdc compare shop.yaml --with dbz       shadow mode: compare with another pipeline
    """,
)

File = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file with the sources.")]
Name = Annotated[str, typer.Option("--source", help="Only this one of the file's sources.")]
DRIVERS = {"postgresql": ("psycopg", "postgres"), "mongodb": ("pymongo", "mongodb")}
GARBAGE_AFTER = 100_000
RESTART_LOG = "cdc-{}.log"


@app.command("run")
def run_(
    config: File,
    source: Name = "",
    logs: Annotated[Path, typer.Option(help="Where the output of several sources goes.")] = Path(
        "data/cdc"
    ),
) -> None:
    """Follow databases until told to stop; what fails is tried again, later each time.

    Several sources run in a process each.

    \b
      chordmq cdc run shop.yaml
      chordmq cdc run all.yaml --source shop
    """
    plan = load(config)
    if source or len(plan.sources) == 1:
        _run_one(plan, chosen(plan, source))
    else:
        _run_all(plan, config, logs)


@app.command()
def check(config: File, source: Name = "", as_json: Json = False) -> None:
    """Say what databases and brokers lack; the exit status is 1 if something must be mended.

    \b
      chordmq cdc check shop.yaml
    """
    plan = load(config)
    found = [
        {"source": one.name, "level": row.level, "text": row.text, "advice": row.advice}
        for one in (plan.sources if not source else [chosen(plan, source)])
        for row in run(_findings(plan, one))
    ]
    if as_json:
        show_json(found)
    else:
        show_table(["SOURCE", "", "FOUND", "WHAT TO DO"], [list(row.values()) for row in found])
    if any(row["level"] == "error" for row in found):
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def status(config: File, source: Name = "", as_json: Json = False) -> None:
    """Show how far sources are, whether or not they run.

    \b
      chordmq cdc status shop.yaml --json
    """
    plan = load(config)
    wanted = plan.sources if not source else [chosen(plan, source)]
    found = [run(_status(plan, one), as_json=as_json) for one in wanted]
    if as_json:
        show_json(found)
    else:
        columns = ["SOURCE", "STATE", "POSITION", "#CHANGES", "#LAG_S", "FAILURE"]
        keys = ("source", "state", "position", "changes", "lag_s", "failure")
        show_table(columns, [[row.get(key) for key in keys] for row in found])


@app.command()
def snapshot(
    config: File,
    tables: Annotated[list[str], typer.Argument(help="schema.table or database.collection.")],
    source: Name = "",
    stop: Annotated[bool, typer.Option("--stop", help="Do not go on with it.")] = False,
) -> None:
    """Ask a running source to read tables again while it goes on to tell changes.

    \b
      chordmq cdc snapshot shop.yaml public.orders public.customers
    """
    from chordmq.cdc.asking import ask
    from chordmq.cdc.signals import EXECUTE, STOP

    one = chosen(load(config), source)
    guarded(ask(one, STOP if stop else EXECUTE, tables))
    say(f"{one.name} is asked; `chordmq cdc status {config}` shows how far it is")


@app.command()
def compare(
    config: File,
    other: Annotated[str, typer.Option("--with", help="Prefix of the other pipeline's topics.")],
    source: Name = "",
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="Only these; all that both have if none.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Columns that may differ.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare what this source has told with what another pipeline has, key by key.

    \b
      chordmq cdc compare shop.yaml --with debezium
    """
    import asyncio

    from chordmq.cdc.comparing import compared
    from chordmq.cdc.runner import broker_of

    plan = load(config)
    one = chosen(plan, source)
    names = (one.prefix, other, tables or [], frozenset(ignore or []))
    reports = run(asyncio.to_thread(compared, broker_of(plan.broker), *names))
    if as_json:
        show_json([report.as_json() for report in reports])
    else:
        columns = ["TABLE", "#KEYS", "#EQUAL", "#ONLY OURS", "#ONLY THEIRS", "#DIFFERENT"]
        show_table(columns, [report.row() for report in reports])
        for report in reports:
            for difference in report.differences:
                print(difference)
    if not reports:
        fail(f"no topic begins with {one.prefix}. and with {other}.", EXIT_USAGE)
    if any(report.differences for report in reports):
        raise typer.Exit(EXIT_REFUSED)


def load(file: Path) -> "Plan":
    """Read a configuration, or end with what is wrong with it."""
    import yaml

    from chordmq.cdc.errors import InvalidSource
    from chordmq.cdc.settings import read_plan
    from chordmq.errors import InvalidSetting

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        plan = read_plan(filled(content, str(file)))
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_USAGE)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"{file} is not YAML: {error}", EXIT_USAGE)
    except (InvalidSource, InvalidSetting) as error:
        fail(f"{file}: {error}", EXIT_USAGE)
    for one in plan.sources:
        _installed_or_fail(one.kind)
    return plan


def filled(content: Any, name: str) -> Any:
    """Return plain values with `${NAME:default}` filled in from the environment."""
    from chordmq.config import fill

    if isinstance(content, dict):
        return {key: filled(inner, f"{name}: {key}") for key, inner in content.items()}
    if isinstance(content, list):
        return [filled(inner, name) for inner in content]
    return fill(name, content, os.environ) if isinstance(content, str) else content


def chosen(plan: "Plan", name: str) -> "Source":
    """Return one source of a configuration, or end with the names there are."""
    from chordmq.cdc.errors import InvalidSource

    try:
        return plan.source(name)
    except InvalidSource as error:
        fail(str(error), EXIT_USAGE)


def guarded(work: Any) -> Any:
    """Run something that talks to a database; its failures end in one line."""
    from chordmq.cdc.errors import CdcError

    try:
        return run(work)
    except CdcError as error:
        fail(str(error), EXIT_REFUSED)


def _installed_or_fail(kind: str) -> None:
    from importlib.util import find_spec

    module, extra = DRIVERS[kind]
    if find_spec(module) is None:
        fail(f"a driver is missing; run: pip install 'chordmq[{extra}]'", EXIT_USAGE)


def _run_one(plan: "Plan", source: "Source") -> None:
    from chordmq import logs
    from chordmq.cdc.rendering import CannotTell

    logs.configure(logs.LogsSettings(level="info"))
    where = f"; http://{source.host}:{source.port}/health" if source.port else ""
    say(f"following {source.name} into {plan.broker.bootstrap}{where}; stop with Ctrl-C")
    try:
        guarded(_follow(plan, source))
    except CannotTell as error:
        fail(str(error), EXIT_REFUSED)


async def _follow(plan: "Plan", source: "Source") -> None:
    import asyncio
    import gc
    import signal

    from chordmq.cdc.runner import Runner, broker_of
    from chordmq.cdc.serving import serving
    from chordmq.clock import SystemClock

    runner = Runner(source, broker_of(plan.broker), SystemClock())
    task = asyncio.current_task()
    assert task is not None
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)  # rows come and go by thousands, and make no cycles
    try:
        async with serving(runner.measures, source.host, source.port):
            await runner.run()
    except asyncio.CancelledError:
        if not stopped:
            raise


def _run_all(plan: "Plan", config: Path, logs: Path) -> None:
    """Run each source in a process of its own, and start those again that end."""
    import asyncio
    import sys

    from chordmq.cli.companion import Companion, keep_running

    companions = [
        Companion(
            f"source {one.name}",
            [sys.executable, "-m", "chordmq", "cdc", "run", str(config), "--source", one.name],
            logs / RESTART_LOG.format(one.name),
            niceness=0,
        )
        for one in plan.sources
    ]
    for one in companions:
        say(f"{one.name}: its output is in {one.log}")

    async def supervise() -> None:
        async with asyncio.TaskGroup() as tasks:
            for one in companions:
                tasks.create_task(keep_running(one, say))

    run(_until_signal(supervise()))


async def _until_signal(work: Any) -> None:
    import asyncio
    import signal

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _findings(plan: "Plan", source: "Source") -> Any:
    from chordmq.cdc.checking import findings
    from chordmq.cdc.runner import broker_of

    return await findings(source, broker_of(plan.broker))


async def _status(plan: "Plan", source: "Source") -> dict[str, Any]:
    from chordmq.cdc.checking import status_of
    from chordmq.cdc.runner import broker_of

    return await status_of(source, broker_of(plan.broker))

"""Checks whether this machine is fit to run a node, and says how to mend what is not."""

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.identity import connection
from chordmq.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from chordmq.cli.output import EXIT_REFUSED, console, show_json

OK, WARN, FAIL = "ok", "warn", "fail"
PYTHON_MIN = (3, 11)
OPEN_FILES_GOOD = 65_536
OPEN_FILES_MIN = 1_024
FREE_BYTES_GOOD = 10 * 1024**3
FREE_BYTES_MIN = 1024**3
CLOCK_FLOOR = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_SKEW_S_MAX = 5.0
CONNECT_TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 256


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `fix` says what to do unless all is well."""

    check: str
    status: str
    detail: str
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the node would use."""

    data_dir: Path
    kafka_port: int
    http_port: int
    bootstrap: str


def doctor(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Where the node keeps its data.")
    ] = Path("data"),
    kafka_port: Annotated[int, typer.Option("--kafka-port", min=1, max=65535)] = 9092,
    http_port: Annotated[int, typer.Option("--http-port", min=1, max=65535)] = 8080,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Check this machine and the node on it; say how to mend what is wrong.

    Exits with 1 when a check fails, with 0 when there are only warnings.

    \b
      chordmq doctor
      chordmq doctor --data-dir /var/lib/chordmq
      chordmq doctor --json | jq '.checks[] | select(.status != "ok")'
    """
    place = Place(
        data_dir=data_dir,
        kafka_port=kafka_port,
        http_port=http_port,
        bootstrap=bootstrap or f"{DEFAULT_BOOTSTRAP.partition(':')[0]}:{kafka_port}",
    )
    findings = [finding for check in CHECKS for finding in check(place)]
    failed = any(finding.status == FAIL for finding in findings)
    if as_json:
        show_json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        _show(findings)
    raise typer.Exit(EXIT_REFUSED if failed else 0)


def _show(findings: list[Finding]) -> None:
    marks = {OK: "[green]ok  [/]", WARN: "[yellow]warn[/]", FAIL: "[red]FAIL[/]"}
    out = console()
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        out.print(f"{marks[finding.status]}  {finding.check:<{width}}  ", end="")
        out.print(finding.detail, markup=False)
        if finding.fix:
            out.print(f"      {'':<{width}}  -> {finding.fix}", markup=False)


def python(place: Place) -> Iterator[Finding]:
    """Check the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON_MIN:
        yield Finding("Python", OK, found)
    else:
        yield Finding("Python", FAIL, found, "install Python 3.11 or newer")


def acceleration(place: Place) -> Iterator[Finding]:
    """Check that the compiled parts are there."""
    if find_spec("uvloop") is None:
        yield Finding("event loop", FAIL, "uvloop is missing", "pip install uvloop")
    else:
        yield Finding("event loop", OK, "uvloop")
    try:
        import crc32c
    except ImportError:
        yield Finding("checksums", FAIL, "crc32c is missing", "pip install crc32c")
        return
    if getattr(crc32c, "hardware_based", True):
        yield Finding("checksums", OK, "crc32c in hardware")
    else:
        yield Finding(
            "checksums", WARN, "crc32c in software", "expected on an old CPU; costs throughput"
        )


def open_files(place: Place) -> Iterator[Finding]:
    """Check how many files and connections one process may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The node raises the soft limit to the hard one when it starts.
    detail = f"{hard:,} (now {soft:,}; a node raises it to the hard limit)"
    fix = f"raise the hard limit: LimitNOFILE={OPEN_FILES_GOOD} in the systemd unit, or ulimit -Hn"
    unlimited = hard == resource.RLIM_INFINITY
    if unlimited or hard >= OPEN_FILES_GOOD:
        yield Finding("open files", OK, "no limit" if unlimited else detail)
    else:
        yield Finding("open files", WARN if hard >= OPEN_FILES_MIN else FAIL, detail, fix)


def data_directory(place: Place) -> Iterator[Finding]:
    """Check that the data directory can be written and has room."""
    path = place.data_dir.absolute()
    existing = next(parent for parent in [path, *path.parents] if parent.exists())
    if not existing.is_dir():
        yield Finding("data directory", FAIL, f"{existing} is a file", "choose another --data-dir")
        return
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".chordmq-doctor-") as probe:
            probe.write(b"probe")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        fix = f"chown or chmod {existing}, or choose another --data-dir"
        yield Finding("data directory", FAIL, f"{existing}: {error.strerror}", fix)
        return
    yield Finding("data directory", OK, f"{path} is writable")
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1024**3:.1f} GiB free"
    fix = "free some space, or keep less: retention.bytes, retention.ms"
    if free >= FREE_BYTES_GOOD:
        yield Finding("disk space", OK, detail)
    else:
        yield Finding("disk space", WARN if free >= FREE_BYTES_MIN else FAIL, detail, fix)


def ports(place: Place) -> Iterator[Finding]:
    """Check that each port is free, or find out who answers there."""
    for name, port, setting in (
        ("Kafka port", place.kafka_port, "kafka.port"),
        ("HTTP port", place.http_port, "http.port"),
    ):
        try:
            with socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S):
                pass
        except OSError:
            yield _bindable(name, port, setting)
            continue
        who = _kafka_peer(f"127.0.0.1:{port}") if setting == "kafka.port" else _http_peer(port)
        if who:
            yield Finding(name, OK, f"{port}: {who} answers")
        else:
            fix = f"stop the program that uses it, or --set {setting}=..."
            yield Finding(name, FAIL, f"{port} is taken by another program", fix)


def _bindable(name: str, port: int, setting: str) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fix = f"choose another: --set {setting}=..."
            return Finding(name, FAIL, f"{port}: {error.strerror}", fix)
    return Finding(name, OK, f"{port} is free")


def _http_peer(port: int) -> str | None:
    """Return what answers on an HTTP port, if it is one of ours."""
    with socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S) as peer:
        peer.settimeout(CONNECT_TIMEOUT_S)
        try:
            peer.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = peer.recv(ANSWER_BYTES_MAX)
        except OSError:
            return None
    ours = answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    return "a node (ready)" if ours and b" 200" in answer[:13] else "a node" if ours else None


def _kafka_peer(bootstrap: str) -> str | None:
    """Return what answers on a Kafka port, if it speaks Kafka."""
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.errors import ClientError

    async def ask() -> str:
        async with Admin(bootstrap, connection(CONNECT_TIMEOUT_S)) as admin:
            return f"cluster {admin.cluster.cluster_id}"

    try:
        return uvloop.run(ask())
    except ClientError:
        return None


def advertised(place: Place) -> Iterator[Finding]:
    """Check that the address a node tells its clients can be reached from here."""
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.errors import CannotConnect, ClientError

    async def ask() -> Iterator[Finding]:
        findings = []
        async with Admin(place.bootstrap, connection(CONNECT_TIMEOUT_S)) as admin:
            for node_id, address in admin.cluster.nodes.items():
                try:
                    await admin.cluster.node(node_id)
                    findings.append(Finding("advertised address", OK, f"{address} answers"))
                except CannotConnect as error:
                    fix = "set kafka.advertised_host to a name that clients can reach"
                    findings.append(Finding("advertised address", FAIL, str(error), fix))
        return iter(findings)

    try:
        yield from uvloop.run(ask())
    except CannotConnect:
        yield Finding("advertised address", OK, f"no node runs at {place.bootstrap} to ask")
    except (ClientError, ValueError) as error:
        yield Finding("advertised address", WARN, str(error), "look at the node's log")


def clock(place: Place) -> Iterator[Finding]:
    """Check that the clock is plausible and kept in time."""
    now = datetime.now(tz=UTC)
    fix = "set the clock, and run a time service: timedatectl set-ntp true"
    if now < CLOCK_FLOOR:
        yield Finding("clock", FAIL, f"it says {now:%Y-%m-%d}", fix)
        return
    with tempfile.NamedTemporaryFile() as probe:
        skew_s = abs(Path(probe.name).stat().st_mtime - datetime.now(tz=UTC).timestamp())
    if skew_s > CLOCK_SKEW_S_MAX:
        yield Finding("clock", WARN, f"file times are {skew_s:.0f} s away from it", fix)
    else:
        yield Finding("clock", OK, f"{now:%Y-%m-%d %H:%M:%S} UTC")


def java(place: Place) -> Iterator[Finding]:
    """Look for Java, which only Kafka's own tools and the pipeline need."""
    found = shutil.which("java")
    if found is None:
        fix = "only for Kafka's own tools and Spark: apt-get install default-jre-headless"
        yield Finding("Java (optional)", WARN, "not installed", fix)
        return
    answer = subprocess.run(  # noqa: S603 (the path comes from the user's own PATH)
        [found, "-version"], capture_output=True, text=True, timeout=20, check=False
    )
    lines = (answer.stderr or answer.stdout).splitlines()
    yield Finding("Java (optional)", OK, lines[0] if lines else found)


CHECKS: list[Callable[[Place], Iterator[Finding]]] = [
    python,
    acceleration,
    open_files,
    data_directory,
    ports,
    advertised,
    clock,
    java,
]

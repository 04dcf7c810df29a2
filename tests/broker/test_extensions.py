"""Extensions: an installed example at work in a node, and broken ones refused by name."""

import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from chordmq.broker.extensions import GROUPS, load
from chordmq.errors import CannotStart
from chordmq.records.record import NewRecord, Record
from tests.cli.command_line import CommandLine
from tests.conftest import StartNode
from tests.running_node import RunningNode, free_port

EXAMPLE = Path(__file__).parent / "example_extension"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Install the example into a directory, as pip would, with the entry points it declares."""
    directory = tmp_path / "site"
    information = directory / "chordmq_example-1.0.dist-info"
    information.mkdir(parents=True)
    shutil.copy(EXAMPLE / "chordmq_example.py", directory)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    (information / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
    return directory


@pytest.fixture
def extended(site: Path, start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> RunningNode:
    monkeypatch.setenv("PYTHONPATH", str(site))
    return start_node(
        {
            "extensions": "stamp, guests, lines",
            "extension.stamp.site": "lisbon",
            "extension.stamp.forbidden": "swordfish",
            "extension.guests.password": "welcome",
            "extension.lines.port": str(free_port()),
            "extension.lines.topic": "lines",
            "auth.mechanisms": "PLAIN",
            "auth.super_users": "User:guest-1",
        }
    )


def test_an_installed_package_extends_a_node(extended: RunningNode) -> None:
    """A11: interceptor, authentication back end and front, found by their entry points."""
    cli = CommandLine(extended.bootstrap)
    as_guest = ("--user", "guest-1", "--password", "welcome", "--mechanism", "PLAIN")
    cli.ok(*as_guest, "topics", "create", "orders")
    cli.ok(*as_guest, "produce", "orders", stdin="hello\n")
    assert cli.ok(*as_guest, "consume", "orders", "--format", "%v %h").lines == [
        "hello site=lisbon"
    ]
    refused = cli(*as_guest, "produce", "orders", stdin="the swordfish\n")
    assert refused.status == 1
    assert "orders takes no such words" in refused.err
    wrong = ("--user", "guest-1", "--password", "guess", "--mechanism", "PLAIN")
    assert cli(*wrong, "topics", "list").status != 0
    port = int(extended.settings["extension.lines.port"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"by hand\n")
        assert client.recv(100) == b"0\n"
    assert cli.ok(*as_guest, "consume", "lines").lines == ["by hand"]


def test_a_node_refuses_to_start_with_an_extension_that_is_not_there(tmp_path: Path) -> None:
    """A11: refused at the start-up, by name and with the reason."""
    done = subprocess.run(
        [sys.executable, "-m", "chordmq", "serve", "--set", f"data_dir={tmp_path}",
         "--set", "extensions=nowhere", "--set", "kafka.port=0", "--set", "http.port=0",
         "--set", "framed.port=0", "--set", "provider.port=0", "--set", "mqtt.port=0",
         "--set", "amqp.port=0", "--set", "capnp.port=0", "--set", "grpc.port=0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Extension 'nowhere' is not installed" in done.stderr


def entries(*declared: tuple[str, str, str]) -> Iterator[EntryPoint]:
    return (EntryPoint(name, value, group) for name, group, value in declared)


class Silent:
    """Does what an interceptor must, and nothing else."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        return records

    def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        return records


class Failing(Silent):
    def __init__(self, settings: dict[str, str]) -> None:
        raise RuntimeError("no licence")


class Deaf:
    def __init__(self, settings: dict[str, str]) -> None:
        pass

    def on_publish(self, topic: str) -> None:
        pass

    async def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        return records


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no.such.module:X", "ModuleNotFoundError: No module named 'no'"),
        (f"{__name__}:Missing", "AttributeError"),
        (f"{__name__}:Failing", "RuntimeError: no licence"),
        (f"{__name__}:EXAMPLE", "TypeError"),
        (f"{__name__}:Deaf", "on_publish must take 2 arguments; on_deliver must be plain"),
    ],
)
def test_a_broken_extension_is_refused_by_name(value: str, reason: str) -> None:
    """A11: import errors, faults of the constructor and wrong interfaces."""
    with pytest.raises(CannotStart) as caught:
        load(["mine"], {}, lambda: entries(("mine", "chordmq.interceptors", value)))
    assert "Extension 'mine'" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_says_what_an_extension_lacks(group: str) -> None:
    with pytest.raises(CannotStart, match="it has no method"):
        load(["mine"], {}, lambda: entries(("mine", group, "builtins:dict")))


def test_settings_of_an_extension_that_is_not_named_are_refused() -> None:
    with pytest.raises(CannotStart, match=r"extension\.stamp has settings"):
        load([], {"stamp": {"site": "lisbon"}})


def test_an_extension_gets_its_own_settings() -> None:
    declared = ("mine", "chordmq.interceptors", f"{__name__}:Silent")
    loaded = load(["mine"], {"mine": {"a": "b"}}, lambda: entries(declared))
    one = loaded.interceptors["mine"]
    assert isinstance(one, Silent)
    assert one.settings == {"a": "b"}

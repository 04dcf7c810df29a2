"""The consumer application as a process beside a real node: queries, refreshes, kill -9."""

import json
import os
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from chordmq.consumer_app.service import from_environment
from tests.conftest import StartNode
from tests.fronts.provider.client import READY, RESET, Client
from tests.running_node import RunningNode, die_with_parent, free_port


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(urllib.error.URLError, ConnectionError):
            if check():
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


class App:
    """The application on loopback."""

    def __init__(self, node: RunningNode, topic: str, directory: Path, **more: str) -> None:
        self._port = free_port()
        self.token = more.get("CONSUMER_TOKEN", "")
        self.context: ssl.SSLContext | None = None
        self._environment = {
            **os.environ,
            "CONSUMER_TYPE": "prices",
            "CONSUMER_TOPIC": topic,
            "CONSUMER_GROUP": f"{topic}-app",
            "CONSUMER_PORT": str(self._port),
            "BROKER_HOST": "127.0.0.1",
            "BROKER_PORT": str(node.provider_address[1]),
            "STORAGE_DATA_DIR": str(directory),
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chordmq", "consumer-app"],
            env=self._environment, preexec_fn=die_with_parent,
        )  # fmt: skip

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def raw(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(
            f"{'https' if self.context else 'http'}://127.0.0.1:{self._port}{path}",
            data=body,
            method="GET" if body is None else "PUT",
            headers={"authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60, context=self.context) as answer:
            return bytes(answer.read())

    def put(self, path: str, body: bytes) -> Any:
        return json.loads(self.raw(path, body))

    def get(self, path: str) -> Any:
        return json.loads(self.raw(path))

    def newest(self) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self.get("/v1/latest")["messages"]}


def create_topic(node: RunningNode, name: str) -> None:
    body = json.dumps({"name": name, "partitions": 2}).encode()
    urllib.request.urlopen(
        urllib.request.Request(
            f"{node.http}/v1/topics", data=body, headers={"content-type": "application/json"}
        )
    ).close()


def status_of(ask: Callable[[], object]) -> int:
    """Return the status with which something is refused."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask()
    refused.value.close()
    return refused.value.code


def mark(client: Client, kind: int, topic: str) -> None:
    client.send(kind, 9, json.dumps({"topic": topic}).encode())
    assert client.answer(9).status == 0


def test_a_topic_is_followed_refreshed_and_exported(
    node: RunningNode, name: str, tmp_path: Path
) -> None:
    """D13: environment, REST queries, RESET/READY swap, kill -9, SQLite export."""
    create_topic(node, name)
    app = App(node, name, tmp_path / "data")
    app.start()
    try:
        with Client(node.provider_address) as client:
            for number in range(20):
                client.publish(name, b"old", key=b"k%02d" % number)
            until(lambda: len(app.newest()) == 20)
            mark(client, RESET, name)
            for number in range(10):
                client.publish(name, b"new", key=b"k%02d" % number)
            until(lambda: bool(app.get("/health")["refreshing"]))
            assert set(app.newest().values()) == {"old"}
            app.kill9()
            app.start()
            until(lambda: app.get("/health")["status"] == "HEALTHY")
            assert len(app.newest()) == 20
            mark(client, READY, name)
            until(lambda: len(app.newest()) == 10)
        assert set(app.newest().values()) == {"new"}
        assert app.get("/v1/latest/k03")["value"] == "new"
        page = app.get("/v1/messages?limit=4")
        assert len(page["messages"]) == 4
        assert len(app.get(f"/v1/messages?after={page['after']}")["messages"]) == 6
        assert b"chordmq_consumer_connected 1" in app.raw("/metrics")
        for path, status in (("/v1/latest/nobody", 404), ("/v1/messages?limit=x", 400)):
            assert status_of(lambda path=path: app.get(path)) == status  # type: ignore[misc]
        (tmp_path / "copy.db").write_bytes(app.raw("/v1/export"))
        with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            assert copy.execute("SELECT count(*) FROM messages").fetchone() == (10,)
    finally:
        app.kill9()


def test_an_exported_data_set_is_taken_over_by_another_application(
    node: RunningNode, name: str, tmp_path: Path
) -> None:
    """D13: export and import; the new application goes on where the export ends."""
    create_topic(node, name)
    first = App(node, name, tmp_path / "first")
    second = App(node, name, tmp_path / "second", CONSUMER_TOKEN="secret")
    try:
        first.start()
        second.start()
        with Client(node.provider_address) as client:
            for number in range(10):
                client.publish(name, b"old", key=b"k%02d" % number)
            until(lambda: len(first.newest()) == 10)
            until(lambda: len(second.newest()) == 10)
            exported = first.raw("/v1/export")
            client.publish(name, b"newest", key=b"k03")
            until(lambda: second.get("/v1/latest/k03")["value"] == "newest")
            assert second.put("/v1/import", exported) == {"messages": 10}
            until(lambda: second.get("/v1/latest/k03")["value"] == "newest")
        assert len(second.get("/v1/messages")["messages"]) == 11
        second.kill9()
        second.start()
        until(lambda: len(second.newest()) == 10)
        assert len(second.get("/v1/messages")["messages"]) == 11
        assert status_of(lambda: second.put("/v1/import", b"no database")) == 400
        second.token = "wrong"
        assert status_of(lambda: second.get("/v1/messages")) == 401
    finally:
        first.kill9()
        second.kill9()


def test_the_node_and_the_application_speak_tls(
    start_node: StartNode, name: str, tmp_path: Path
) -> None:
    """D13, A10: TLS to the broker, and to those who ask."""
    authority = trustme.CA()
    certificate, ca = str(tmp_path / "node.pem"), str(tmp_path / "ca.pem")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(ca)
    node = start_node({"provider.tls.certificate": certificate})
    create_topic(node, name)
    body = json.dumps([{"key": "k", "value": "v"}]).encode()
    urllib.request.urlopen(
        urllib.request.Request(
            f"{node.http}/v1/topics/{name}/records",
            data=body,
            headers={"content-type": "application/json"},
        )
    ).close()
    app = App(
        node, name, tmp_path / "data", BROKER_TLS_CA=ca,
        CONSUMER_TLS_CERTIFICATE=certificate, CONSUMER_TLS_KEY=certificate,
    )  # fmt: skip
    app.context = ssl.create_default_context(cafile=ca)
    try:
        app.start()
        until(lambda: app.newest() == {"k": "v"})
    finally:
        app.kill9()


def test_the_environment_is_checked() -> None:
    """D13: configured by environment."""
    with pytest.raises(ValueError, match="CONSUMER_TOPIC"):
        from_environment({})
    with pytest.raises(ValueError, match="BROKER_PORT"):
        from_environment({"CONSUMER_TOPIC": "t", "BROKER_PORT": "x"})
    with pytest.raises(ValueError, match="CONSUMER_TOKEN"):
        from_environment({"CONSUMER_TOPIC": "t", "CONSUMER_HOST": "0.0.0.0"})
    settings = from_environment({"CONSUMER_TOPIC": "t", "CONSUMER_PORT": "81"})
    assert (settings.group, settings.port) == ("consumer-app-t", 81)

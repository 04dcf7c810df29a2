"""A cluster whose clients must log in: users and rights are the same on every node at once."""

import json
import os
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.running_cluster import CALM, RunningCluster, until
from tests.running_node import RunningNode


def chordmq(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "chordmq", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def login(node: RunningNode, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password,
        "log_level": 0,
    }  # fmt: skip


def ask(node: RunningNode, method: str, path: str, body: Any = None) -> Any:
    pair = b64encode(b"admin:secret").decode()
    headers = {"Authorization": f"Basic {pair}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(node.http + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def test_whoever_is_let_in_by_one_node_is_let_in_by_all(tmp_path: Path) -> None:
    """A10, C9: the first administrator is made in the store itself; the rest on any node."""
    settings = CALM | {"auth.mechanisms": "SCRAM-SHA-512,PLAIN"}
    cluster = RunningCluster(tmp_path, settings=settings)
    with cluster.etcd:
        chordmq(
            "users", "add", "admin", "--admin", "--data-dir", ",".join(cluster.etcd.endpoints),
            CHORDMQ_NEW_PASSWORD="secret",
        )  # fmt: skip
        with cluster:
            one, two, three = cluster.nodes.values()
            admin = AdminClient(login(one, "admin", "secret"))
            admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)

            ask(two, "POST", "/v1/users", {"name": "ann", "password": "pencil"})
            until(lambda: "ann" in json.dumps(ask(three, "GET", "/v1/users")))
            outsider = Producer(login(three, "ann", "pencil"))
            assert _outcome(outsider) == "TOPIC_AUTHORIZATION_FAILED"

            rule = {"kind": "topic", "name": "t", "principal": "User:ann", "operation": "write"}
            ask(one, "POST", "/v1/acls", {"acls": [rule]})
            until(lambda: _outcome(Producer(login(three, "ann", "pencil"))) == "written")

            ask(three, "DELETE", "/v1/users/ann")
            until(lambda: "ann" not in json.dumps(ask(two, "GET", "/v1/users")))
            with pytest.raises(KafkaException):
                AdminClient(login(two, "ann", "pencil")).list_topics(timeout=2)


def _outcome(producer: Producer) -> str:
    outcomes: list[Any] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(60)
    return outcomes[0].name() if outcomes and outcomes[0] else "written"

"""The doctor knows an etcd that is gone, clocks that differ, and topics nobody can write to."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chordmq.cli.diagnosis import cluster
from tests.cli.command_line import CommandLine
from tests.cli.diagnosis.places import only, place
from tests.cluster.etcd_members import EtcdMembers
from tests.cluster.running_cluster import RunningCluster
from tests.running_node import free_port

YEARS_AGO = "Mon, 16 Nov 2020 08:00:00 GMT"


class OldClock(BaseHTTPRequestHandler):
    """A machine whose clock stands, in a cluster of which a node is gone and another is newer."""

    def do_GET(self) -> None:
        me = f"http://{self.headers['Host']}"
        version = "0.2.0" if self.path.startswith("/other") else "0.1.0"
        rows = [
            {"id": 1, "version": version, "live": True, "http": me},
            {"id": 2, "version": "0.2.0", "live": True, "http": f"{me}/other"},
            {"id": 3, "version": "", "live": False, "http": ""},
        ]
        self.send_response_only(200)
        self.send_header("Date", YEARS_AGO)
        self.end_headers()
        self.wfile.write(json.dumps({"nodes": rows}).encode())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def old_clock() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OldClock) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_an_etcd_that_is_gone_or_slow_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: doctor, etcd unreachable or slow."""
    with EtcdMembers(tmp_path) as members:
        where = place("cluster.store=etcd", f"cluster.endpoints={members.endpoints[0]}")
        monkeypatch.setattr(cluster, "ETCD_SLOW_S", 60)
        assert only(cluster.etcd, where).status == "ok"
        monkeypatch.setattr(cluster, "ETCD_SLOW_S", 0)
        assert only(cluster.etcd, where).status == "warn"
    assert only(cluster.etcd, where).status == "fail"
    assert list(cluster.etcd(place())) == [], "a node alone has none"


def test_a_clock_that_differs_from_etcds_is_found(old_clock: str) -> None:
    """X4: doctor, clock skew."""
    where = place("cluster.store=etcd", f"cluster.endpoints={old_clock}")
    found = list(cluster.etcd(where))[-1]
    assert (found.check, found.status) == ("clock", "fail")


def test_nodes_that_are_gone_or_differ_in_version_and_time_are_found(
    old_clock: str, tmp_path: Path
) -> None:
    """X4: doctor, version mix in the cluster, clock skew against its nodes."""
    cli = CommandLine(f"127.0.0.1:{free_port()}")
    outcome = cli("doctor", "--url", old_clock, "--data-dir", str(tmp_path), "--json")
    found = [row for row in outcome.data["checks"] if row["check"] in ("nodes", "versions")]
    assert [row["detail"] for row in found] == ["node 3 is gone", "0.1.0 on 1; 0.2.0 on 2"]
    clocks = [row for row in outcome.data["checks"] if row["check"] == "clock"]
    assert [row["status"] for row in clocks] == ["ok", "fail", "fail"]


def test_too_few_replicas_for_new_topics_are_found() -> None:
    """X4: doctor, min.insync.replicas above the replicas; topics created with one replica."""
    few = ["broker.default.replication.factor=2", "broker.min.insync.replicas=3"]
    assert only(cluster.replicas, place("cluster.store=etcd", *few)).status == "fail"
    one = ["broker.default.replication.factor=1", "broker.auto.create.topics.enable=true"]
    assert only(cluster.replicas, place("cluster.store=etcd", *one)).status == "warn"
    good = ["broker.default.replication.factor=3", "broker.min.insync.replicas=2"]
    assert only(cluster.replicas, place("cluster.store=etcd", *good)).status == "ok"


@pytest.mark.slow
def test_a_topic_that_nobody_can_write_to_is_found(tmp_path: Path) -> None:
    """X4: doctor, min.insync.replicas above the replicas of a topic that is there."""
    with RunningCluster(tmp_path) as running:
        cli = CommandLine(running.bootstrap)
        settings = ["--replicas", "1", "--set", "min.insync.replicas=2"]
        cli.ok("topics", "create", "narrow", *settings)
        found = cli("doctor", "--data-dir", str(tmp_path / "new"), "--json").data["checks"]
        (topics,) = [row for row in found if row["check"] == "topics"]
        assert (topics["status"], "narrow" in topics["detail"]) == ("fail", True)

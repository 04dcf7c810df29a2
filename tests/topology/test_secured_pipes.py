"""Pipes where both ends must prove who they are, and ACLs say what a child may pull."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.running_node import RunningNode
from tests.topology.conftest import StartRegistry
from tests.topology.test_pipes import call, until

RULES = "RULE:^CN=([^,]+)(,.*)?$/$1/L,DEFAULT"


class Guarded:
    """A node whose HTTP port speaks TLS with those whose certificate its authority has signed."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        directory.mkdir()
        self._authority = trustme.CA()
        self.ca = str(directory / "ca.pem")
        self._authority.cert_pem.write_to_path(self.ca)
        acls = directory / "acls.json"
        rows = [("read", "prices"), ("describe", "prices"), ("describe", "secret")]
        rules = [
            {"kind": "topic", "name": name, "principal": "User:shop", "operation": operation}
            for operation, name in rows
        ]
        acls.write_text(json.dumps({"acls": rules}))
        tls = {
            "http.tls.certificate": self.issue("node", "127.0.0.1"),
            "http.tls.client_ca": self.ca,
            "http.tls.client_auth": "required",
            "http.tls.principal_rules": RULES,
            "auth.super_users": "User:boss",
            "acl.file": str(acls),
        }
        self.node = RunningNode(directory / "node", {**tls, **settings})
        self.url = self.node.http.replace("http:", "https:")
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.issue("boss", "boss.test"))
        self._boss = httpx.Client(base_url=self.url, verify=context, timeout=60)

    def issue(self, name: str, host: str, authority: trustme.CA | None = None) -> str:
        """Return a file with a certificate and its key."""
        path = self._directory / f"{name}.pem"
        issued = (authority or self._authority).issue_cert(host, common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return str(path)

    def start(self) -> None:
        self.node.start(wait=False)
        until(self._is_ready, "the node is ready")

    def _is_ready(self) -> bool:
        try:
            return self._boss.get("/ready").status_code == 200
        except httpx.TransportError:
            return False

    def post(self, path: str, body: Any) -> None:
        assert self._boss.post(path, json=body).is_success

    def close(self) -> None:
        self._boss.close()
        self.node.close()


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path / "parent")
    try:
        guarded.start()
        for topic in ("prices", "secret"):
            guarded.post("/v1/topics", {"name": topic, "partitions": 1})
            guarded.post(f"/v1/topics/{topic}/records", [{"value": topic}])
        yield guarded
    finally:
        guarded.close()


def child(parent: Guarded, directory: Path, certificate: str) -> RunningNode:
    return RunningNode(
        directory,
        {
            "pipes.parent": parent.url,
            "pipes.topics": ".*",
            "pipes.tls_ca": parent.ca,
            "pipes.tls_certificate": certificate,
            "pipes.topics_interval_s": "1",
        },
    )


def test_a_child_shows_its_certificate_and_gets_what_acls_allow(
    parent: Guarded, tmp_path: Path
) -> None:
    """D12, A10: mutual TLS between parent and child; READ on a topic lets a child copy it."""
    shop = child(parent, tmp_path / "shop", parent.issue("shop", "shop.test"))
    stranger = child(parent, tmp_path / "x", parent.issue("x", "x.test", trustme.CA()))
    try:
        shop.start()
        stranger.start()
        until(lambda: end_of(shop, "prices") == 1, "what is allowed is copied")
        until(lambda: "403" in error_of(shop, "secret"), "what is not is refused, with the reason")
        assert end_of(shop, "secret") == 0
        assert call(stranger, "GET", "/v1/topics")["topics"] == []
    finally:
        shop.close()
        stranger.close()


def test_a_registry_knows_nodes_by_their_certificates(
    start_registry: StartRegistry, tmp_path: Path
) -> None:
    """D11: token and mutual TLS between nodes and registry."""
    authority = trustme.CA()
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "registry", "node")}
    authority.cert_pem.write_to_path(str(files["ca"]))
    for name in ("registry", "node"):
        issued = authority.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(files[name]))
    context = ssl.create_default_context(cafile=str(files["ca"]))
    context.load_cert_chain(str(files["node"]))
    certificate = str(files["registry"])
    registry = start_registry(
        "--tls-certificate", certificate, "--tls-key", certificate,
        "--tls-client-ca", str(files["ca"]), "--token", "secret", context=context,
    )  # fmt: skip
    known = RunningNode(
        tmp_path / "known",
        {
            "pipes.registry": registry.url,
            "pipes.registry_token": "secret",
            "pipes.node": "head",
            "pipes.tls_ca": str(files["ca"]),
            "pipes.tls_certificate": str(files["node"]),
        },
    )
    try:
        known.start()
        until(lambda: "head" in call(known, "GET", "/v1/topology")["nodes"], "it has its place")
        assert registry.call("GET", "/v1/topology")[0] == 401
    finally:
        known.close()


def end_of(node: RunningNode, topic: str) -> int:
    listed = [row["name"] for row in call(node, "GET", "/v1/topics")["topics"]]
    if topic not in listed:
        return -1
    return int(call(node, "GET", f"/v1/topics/{topic}")["partitions"][0]["end_offset"])


def error_of(node: RunningNode, topic: str) -> str:
    pipes = call(node, "GET", "/v1/pipes")["pipes"]
    return "".join(one["error"] for one in pipes if one["topic"] == topic)

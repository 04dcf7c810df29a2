"""A cluster of real nodes whose links demand certificates."""

from pathlib import Path

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.cluster.running_cluster import RunningCluster, until


@pytest.mark.slow
@pytest.mark.interop
def test_nodes_with_certificates_replicate_and_others_are_kept_out(tmp_path: Path) -> None:
    """A10: links between nodes are mutually authenticated TLS."""
    secured = certificates(tmp_path / "ours", trustme.CA())
    with RunningCluster(tmp_path, settings=secured) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 3, replication_factor=3)])["t"].result(60)
        until(lambda: produced(cluster.bootstrap))
        assert sum(node.metric("chordmq_link_up") for node in cluster.nodes.values()) == 6
        stranger = cluster.add(4)
        stranger.settings |= certificates(tmp_path / "theirs", trustme.CA())
        stranger.start()
        assert stranger.metric("chordmq_link_up") == 0
        until(lambda: failures(cluster) >= 3)
        assert sum(node.metric("chordmq_link_up") for node in cluster.nodes.values()) == 6


def certificates(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Return the settings of a node with a certificate for its links."""
    folder.mkdir()
    node = authority.issue_cert("127.0.0.1", common_name="node")
    node.private_key_and_cert_chain_pem.write_to_path(str(folder / "node.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return {
        "peer.tls.certificate": str(folder / "node.pem"),
        "peer.tls.client_ca": str(folder / "ca.pem"),
        "peer.tls.client_auth": "required",
    }


def produced(bootstrap: str) -> bool:
    """Say whether records reach all copies."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(300):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, _: failed.append(error))
    return producer.flush(60) == 0 and failed == [None] * 300


def failures(cluster: RunningCluster) -> float:
    """Return how often the cluster's nodes could not agree on keys with somebody."""
    return sum(cluster.nodes[n].metric("chordmq_breaker_failures_total") for n in (1, 2, 3))

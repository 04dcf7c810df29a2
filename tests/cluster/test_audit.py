"""Proves that a cluster keeps one audit trail, unbroken over the loss of its leader."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from chordmq.broker.audit.chain import GENESIS, Entry, digest_of, read_entry
from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import admin, create, in_sync, leader

TOPIC = "__audit"


def trail(cluster: RunningCluster) -> list[Entry]:
    """Return the records of the trail, in their order, after checking that each names the last."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "auditors", "log_level": 0}
    )
    place = TopicPartition(TOPIC, 0, 0)
    consumer.assign([place])
    end = consumer.get_watermark_offsets(place, timeout=60)[1]
    found: list[Entry] = []
    digest = GENESIS
    deadline = time.monotonic() + 60
    while len(found) < end and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            text = message.value() or b""
            entry = read_entry(len(found), text)
            assert (entry.seq, entry.prev) == (len(found), digest)
            digest = digest_of(text)
            found.append(entry)
    consumer.close()
    return found


@pytest.mark.slow
def test_all_nodes_write_one_chain_whoever_leads_it(tmp_path: Path) -> None:
    """E5: the trail goes on, with its sequence and its hashes, when its leader is killed."""
    with RunningCluster(tmp_path, settings={"audit.enabled": "on"}) as cluster:
        client = admin(cluster)
        until(lambda: TOPIC in client.list_topics(timeout=60).topics)
        until(lambda: len(in_sync(cluster, TOPIC)) == 3)
        nodes = {f"node {number}" for number in cluster.nodes}
        until(lambda: {entry.who for entry in trail(cluster)} >= nodes)
        cluster.nodes[leader(cluster, TOPIC)].kill9()
        create(cluster, "orders", copies=2)
        until(lambda: any("orders" in entry.obj for entry in trail(cluster)))

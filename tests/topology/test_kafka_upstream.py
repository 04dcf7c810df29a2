"""A pipe from a real Apache Kafka: what its clients wrote, and where its groups go on."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import StartNode
from tests.drivers.servers import KafkaServer
from tests.topology.conftest import StartMirror
from tests.topology.test_mirror import GROUP, consume, end_offsets, moved
from tests.topology.test_pipes import call, until


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path / "kafka")
    try:
        server.start()
        yield server
    finally:
        server.close()


def bootstrap(kafka: KafkaServer) -> str:
    return kafka.address.removeprefix("kafka://")


def write(kafka: KafkaServer) -> list[str]:
    """Write through transactions, of which every third is given up; return what counts."""
    producer = Producer({"bootstrap.servers": bootstrap(kafka), "transactional.id": "writer"})
    producer.init_transactions(60)
    kept = []
    for number in range(12):
        producer.begin_transaction()
        values = [f"{number}-{item}" for item in range(20)]
        for item, value in enumerate(values):
            producer.produce("orders", value.encode(), partition=item % 2)
        if number % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            kept += values
    return kept


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.timeout(400)
def test_a_group_moves_from_apache_kafka_and_goes_on_where_it_stopped(
    kafka: KafkaServer, start_node: StartNode, start_mirror: StartMirror
) -> None:
    """C17, D1: records, settings and offsets; aborted records stay behind, nothing is lost."""
    admin = AdminClient({"bootstrap.servers": bootstrap(kafka)})
    topic = NewTopic("orders", 2, 1, config={"retention.ms": "7200000"})
    admin.create_topics([topic])["orders"].result(60)
    kept = write(kafka)
    node = start_node()
    mirror = start_mirror("--from", kafka.address, "--to", node.http, "--groups", GROUP)
    seen = consume(bootstrap(kafka), 70, reset="earliest")
    until(lambda: end_offsets(node) > 0, "records come")
    mirror.kill9()
    mirror.start()
    until(lambda: records_of(node.http) == len(kept), "all that counts is there")
    moved(kafka.address, node.http)
    assert call(node, "GET", "/v1/topics/orders")["settings"] == {"retention.ms": "7200000"}
    seen += consume(node.bootstrap, 0, {*kept} - {*seen}, reset="earliest")
    assert sorted(seen) == sorted(kept)


def records_of(url: str) -> int:
    position, count = "earliest", 0
    while True:
        path = f"{url}/v1/topics/orders/records?max_records=10000&position={position}"
        answer = httpx.get(path, timeout=30).json()
        if not answer["records"]:
            return count
        count += len(answer["records"])
        position = answer["position"]

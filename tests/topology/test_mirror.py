"""Two clusters that mirror each other: a real consumer group moves over, and back."""

import subprocess
import sys
from collections.abc import Collection, Sequence

from confluent_kafka import Consumer, KafkaException, Producer

from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.topology.conftest import StartMirror
from tests.topology.test_pipes import call, until

GROUP = "billing"


def produce(node: RunningNode, values: Sequence[str]) -> None:
    """Write one value after the other, some of them together."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce("orders", value.encode(), partition=number % 2)
        if number % 50 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def consume(
    bootstrap: str, count: int, wanted: Collection[str] = (), reset: str = "error"
) -> list[str]:
    """Read so many records as a member of the group, and on until some are there; commit them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    found: list[str] = []
    while len(found) < count or not {*wanted} <= {*found}:
        for message in consumer.consume(max(1, count - len(found)), timeout=1):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            found.append((message.value() or b"").decode())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def begin_group(node: RunningNode) -> None:
    rows = [{"topic": "orders", "partition": index, "offset": 0} for index in (0, 1)]
    call(node, "PUT", f"/v1/groups/{GROUP}/offsets", {"offsets": rows})


def move(source: str, target: str) -> subprocess.CompletedProcess[str]:
    command = ["mirror", "move", GROUP, "--from", source, "--to", target]
    return subprocess.run(
        [sys.executable, "-m", "chordmq", *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def moved(source: str, target: str) -> None:
    """Move the group as soon as everything is copied."""

    def is_done() -> bool:
        done = move(source, target)
        assert done.returncode == 0 or "yet to be copied" in done.stderr, done.stderr
        return done.returncode == 0

    until(is_done, "the group moves")


def end_offsets(node: RunningNode) -> int:
    topic = call(node, "GET", "/v1/topics/orders")
    return sum(row["end_offset"] for row in topic["partitions"])


def values(name: str, count: int) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


def test_a_group_moves_to_another_cluster_and_back_and_loses_nothing(
    start_node: StartNode, start_mirror: StartMirror
) -> None:
    """C17: topics, settings and translated offsets, both ways, while the mirror is killed."""
    a, b = start_node(), start_node()
    call(a, "POST", "/v1/topics",
         {"name": "orders", "partitions": 2, "settings": {"retention.ms": "86400000"}})  # fmt: skip
    # Offsets differ from the start: what lies at b has been there before, under the same name.
    call(b, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    produce(b, values("b", 30))
    mirror = start_mirror("--from", a.http, "--to", b.http, "--both")
    first = values("a", 400)
    produce(a, first)
    mirror.kill9()
    mirror.start()
    begin_group(a)
    until(lambda: end_offsets(a) == end_offsets(b) == 430, "both have everything")
    seen = consume(a.bootstrap, 200)
    moved(a.http, b.http)
    seen += consume(b.bootstrap, 130)
    second = values("c", 100)
    produce(b, second)
    until(lambda: end_offsets(a) == 530, "the rest is copied back")
    moved(b.http, a.http)
    seen += consume(a.bootstrap, 0, {*first, *values("b", 30), *second} - {*seen})
    for node in (a, b):
        assert end_offsets(node) == 530


def test_offsets_follow_while_the_mirror_runs_and_settings_as_they_change(
    start_node: StartNode, start_mirror: StartMirror
) -> None:
    """C17: one way, offsets are exact: the group goes on at the very next record."""
    a, b = start_node(), start_node()
    call(a, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    start_mirror("--from", a.http, "--to", b.http, "--groups", "bill.*")
    produce(a, values("a", 300))
    begin_group(a)
    seen = consume(a.bootstrap, 170)

    def lag() -> int:
        return int(call(b, "GET", f"/v1/groups/{GROUP}/lag")["total_lag"])

    until(lambda: end_offsets(b) == 300 and lag() == 130, "records and offsets are there")
    call(a, "PATCH", "/v1/topics/orders/settings", {"retention.ms": "123456789"})
    until(
        lambda: call(b, "GET", "/v1/topics/orders")["settings"] == {"retention.ms": "123456789"},
        "the setting follows",
    )
    seen += consume(b.bootstrap, 130)
    assert sorted(seen) == sorted(values("a", 300))


def test_a_group_with_consumers_is_not_moved(start_node: StartNode) -> None:
    """C17: it would go on at both places."""
    a, b = start_node(), start_node()
    call(a, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    consumer = Consumer({"bootstrap.servers": a.bootstrap, "group.id": GROUP})
    consumer.subscribe(["orders"])

    def has_joined() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    until(has_joined, "the consumer joins")
    refused = move(a.http, b.http)
    assert refused.returncode != 0
    assert "stop them first" in refused.stderr
    consumer.close()

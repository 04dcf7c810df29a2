"""The rows of a benchmark: medians, ratios and whether targets are reached."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from benchmarks import ceilings, report
from benchmarks.__main__ import QUICK
from benchmarks.peers import Peer
from benchmarks.session import Meter, Sample, Session, rate_samples
from benchmarks.sockets import Rate


def sample(name: str, value: float, goal: str = "") -> Sample:
    return Sample(name, value, "msg/s", 2.0, 50.0, "command", goal=goal)


def test_a_row_compares_the_medians_of_the_rounds() -> None:
    """X6: ours and the peer's number come from the same case and become one ratio."""
    ours = [sample("case", value) for value in (100.0, 300.0, 200.0)]
    peers = [sample("case", value) for value in (50.0, 90.0, 100.0)]

    (row,) = report.rows(ours, peers)

    assert (row["ours"], row["peer"]) == (200.0, 90.0)
    assert row["ratio"] == pytest.approx(200 / 90)
    assert row["ours_rounds"] == [100.0, 300.0, 200.0]


@pytest.mark.parametrize(
    ("goal", "ours", "met"),
    [
        ("produce", 149.0, False), ("produce", 150.0, True), ("consume", 151.0, True),
        ("unbatched", 99.0, False), ("unbatched", 100.0, True),
        ("latency", 30.0, True), ("latency", 31.0, False), ("cpu", 40.0, True),
        ("memory", 10.0, True), ("memory", 11.0, False), ("start", 11.0, False),
    ],
)  # fmt: skip
def test_a_ratio_is_held_against_its_target(goal: str, ours: float, met: bool) -> None:
    """X6: each kind of measurement has the target that the comparison must reach."""
    (row,) = report.rows([sample("case", ours, goal)], [sample("case", 100.0, goal)])

    assert row["met"] is met


def test_a_floor_counts_even_when_the_ratio_is_reached() -> None:
    ours = sample("produce_100b_acks1_os", 600_000.0, "produce")
    peer = sample("produce_100b_acks1_os", 100_000.0, "produce")

    (row,) = report.rows([ours], [peer])

    assert row["ratio"] == 6.0
    assert row["met"] is False


def test_without_the_peer_there_is_no_ratio_and_no_verdict() -> None:
    (row,) = report.rows([sample("case", 5.0, "produce")], [])

    assert row["peer"] is None
    assert row["ratio"] is None
    assert row["met"] is None


def test_a_rate_also_says_what_a_gigabyte_cost() -> None:
    rate = Rate(count=1_000_000, seconds=2.0, size=100_000_000)

    messages, cost = rate_samples("produce_x", rate, Meter(cpu_s=0.5, rss_mb=40.0), "command")

    assert (messages.value, messages.mb_s) == (500_000.0, 50.0)
    assert (cost.name, cost.value, cost.goal) == ("produce_x.cpu_per_gb", 5.0, "cpu")


def test_a_front_is_compared_with_the_peers_of_its_own_case() -> None:
    """X6: MQTT with mosquitto and amqtt, which are not the peer of the other cases."""
    ours = [sample("mqtt_qos0", 90.0), sample("mosquitto_qos0", 10.0), sample("amqtt_qos0", 9.0)]

    rows = report.rows([*ours, sample("shadow_updates", 5.0)], [])

    found = [(row["name"], row["peer_name"], row["ratio"], row["met"]) for row in rows]
    assert found == [
        ("mqtt_qos0", "mosquitto", 9.0, True),
        ("mqtt_qos0", "amqtt", 10.0, False),
        ("shadow_updates", report.PEER_NAME, None, False),
    ]


def test_a_row_names_who_was_measured_in_place_of_the_other_broker() -> None:
    """X6: nobody takes the figures of NATS for Kafka's."""
    names = ("stream_nats_os.in", "stream_redis_disk.out", "spark_table", "produce_1k_acks1_os")
    samples = [sample(name, 1.0) for name in names]

    found = [row["peer_name"] for row in report.rows(samples, samples)]

    assert found == ["NATS JetStream", "Redis Streams", "Spark's connector", report.PEER_NAME]


def test_a_rate_is_shown_as_a_part_of_the_tightest_ceiling() -> None:
    """X6: of what each byte has to pass; a flush counts only where the case waits for one."""
    ceilings = {"loopback": 3000.0, "disk": 2000.0, "disk_flushed": 100.0, "stored": 900.0}
    ours = [sample(f"ceiling.{name}", value) for name, value in ceilings.items()]
    ours += [
        Sample(name, 1.0, "msg/s", 0.0, 0.0, "command", mb_s=50.0)
        for name in ("produce_1k_acks1_os", "produce_1k_acksall_disk", "consume_1k_tail")
    ]

    rows = {row["name"]: row["of_ceiling"] for row in report.rows(ours, [])}

    assert rows["produce_1k_acks1_os"] == pytest.approx(50 / 900)
    assert rows["produce_1k_acksall_disk"] == pytest.approx(50 / 100)
    assert rows["consume_1k_tail"] == pytest.approx(50 / 3000)
    assert rows["ceiling.disk"] is None


def test_a_ceiling_is_the_best_of_its_rounds() -> None:
    """X6: what was reached once, or done with as little, can be; only our own rows are medians."""
    rates = [sample("ceiling.java_consume_100b", value) for value in (300.0, 450.0, 310.0)]
    costs = [
        replace(sample("ceiling.librdkafka_flushed_1k.cpu", value), unit="CPU s/GB")
        for value in (2.7, 1.5, 3.9)
    ]
    rate = replace(sample("consume_java_100b_tail", 1.0), mb_s=150.0)
    cost = replace(sample("produce_1k_acksall_disk.cpu_per_gb", 6.0), unit="CPU s/GB")
    found = report.rows([*rates, *costs, rate, cost], [rate, cost])
    rows = {row["name"]: row["at_best"] for row in found}
    assert rows["consume_java_100b_tail"] == pytest.approx(3.0)
    assert rows["produce_1k_acksall_disk.cpu_per_gb"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("case", "ceiling"),
    [("consume_1k_tail", "librdkafka_consume_1k"), ("consume_java_100b_tail", "java_consume_100b")],
)
def test_a_row_says_what_ratio_no_broker_could_exceed(case: str, ceiling: str) -> None:
    """X6: where a client alone is slower than the target, the table shows it."""
    ours = [
        sample(f"ceiling.{ceiling}", 450.0),
        Sample(case, 1.0, "msg/s", 0.0, 0.0, "command", mb_s=400.0),
    ]
    peers = [Sample(case, 1.0, "msg/s", 0.0, 0.0, "command", mb_s=360.0)]

    rows = {row["name"]: row["at_best"] for row in report.rows(ours, peers)}

    assert rows[case] == pytest.approx(1.25)
    assert rows[f"ceiling.{ceiling}"] is None


@pytest.mark.parametrize(
    ("case", "floor"),
    [
        ("produce_100b_acks1_os", "librdkafka_stored_acks1_100b.cpu"),
        ("produce_1k_acksall_os", "librdkafka_stored_acksall_1k.cpu"),
        ("produce_100b_acksall_disk", "librdkafka_flushed_100b.cpu"),
        ("produce_java_1k_acksall_os", "java_stored_acksall_1k.cpu"),
        ("partitions_1000", "librdkafka_stored_acks1_100b.cpu"),
        ("consume_java_100b_tail", "sendfile"),
        ("consume_socket_1k_cold", "sendfile"),
        ("produce_socket_1k_acks1_os", None),
        ("unbatched_50_connections", None),
    ],
)
def test_a_row_says_what_part_of_the_processor_time_no_broker_could_go_below(
    case: str, floor: str | None
) -> None:
    """X6: of the peer's, by what storing or sending alone takes with the same client."""
    floors = {kind: 1.0 + number for number, (_, kind) in enumerate(report.COSTS)}
    ours = [sample(f"ceiling.{kind}", value) for kind, value in floors.items()]
    costs = [sample(f"{case}.cpu_per_gb", 40.0, "cpu")]

    rows = {row["name"]: row["at_best"] for row in report.rows([*ours, *costs], costs)}

    assert rows[f"{case}.cpu_per_gb"] == (floor and pytest.approx(floors[floor] / 40.0))


def test_each_limit_of_the_table_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X6: a name that no run has would leave its column empty."""
    for name in ("loopback", "disk", "copy", "checksum"):
        monkeypatch.setattr(ceilings, name, lambda *_, **__: 1.0)
    monkeypatch.setattr(ceilings, "beside_hollow", lambda *_: ceilings.Found(1.0, 1.0))
    monkeypatch.setattr("benchmarks.reading.cost_of", lambda _: 1.0)
    peer = Peer("ChordMQ", "", cast("subprocess.Popen[bytes]", None), tmp_path, 0.0)

    units = {one.name: one.unit for one in ceilings.ceilings(Session(peer, True, QUICK))}

    rates = {kind for _, kinds in report.LIMITS for kind in kinds}
    assert {units.get(f"ceiling.{kind}") for kind in rates} == {"MB/s"}
    assert {units.get(f"ceiling.{kind}") for _, kind in report.COSTS} == {"CPU s/GB"}

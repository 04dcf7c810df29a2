"""Every kind of reading on tiny literal frames: what is good becomes a row, the rest says why."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from chordmq.iot.models import Models
from chordmq_spark.transforms.telemetry import BYTES_MAX, clean, good, rejected

TIME = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
NAME = "iotsphere/devices/d1/telemetry/temperature"
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key string, value binary>>"
)


def records(spark: SparkSession, *messages: tuple[str | None, bytes | None]) -> DataFrame:
    rows = [
        (
            b"d1",
            value,
            "iotsphere.devices",
            0,
            offset,
            TIME,
            0,
            [] if name is None else [("chordmq.topic", bytearray(name.encode()))],
        )
        for offset, (name, value) in enumerate(messages)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def one(spark: SparkSession, value: bytes | None, name: str | None = NAME) -> Row:
    (row,) = clean(records(spark, (name, value)), Models()).collect()
    return row


def envelope(payload: object, **metadata: str) -> bytes:
    said = {"messageId": "m1", "timestamp": "2026-11-01T11:59:58Z"} | metadata
    return json.dumps({"metadata": said, "payload": payload}).encode()


def test_a_reading_in_an_envelope_becomes_one_clean_row(spark: SparkSession) -> None:
    """P3, P8: device and metric from the name, id and time from the envelope, unit made common."""
    row = one(spark, envelope({"value": 68, "unit": "F"}))
    assert (row.messageId, row.deviceId, row.metric) == ("m1", "d1", "temperature")
    assert (round(row.value, 6), row.unit, row.problem) == (20.0, "C", None)
    assert row.time.astimezone(UTC) == TIME - timedelta(seconds=2)


@pytest.mark.parametrize(
    "value", [b"21.5", b'{"value": 21.5}', b'{"temperature": 21.5, "humidity": 40}']
)
def test_a_reading_without_envelope_takes_id_and_time_from_its_record(
    spark: SparkSession, value: bytes
) -> None:
    row = one(spark, value)
    assert (row.messageId, row.value) == ("iotsphere.devices-0-0", 21.5)
    assert row.time.astimezone(UTC) == TIME
    assert row.problem is None


def test_the_name_may_stand_in_the_envelope_alone(spark: SparkSession) -> None:
    row = one(spark, envelope({"value": 1}, topic=NAME), name=None)
    assert (row.deviceId, row.metric, row.problem) == ("d1", "temperature", None)


def test_a_metric_gets_its_common_name(spark: SparkSession) -> None:
    assert one(spark, b"5", "iotsphere/devices/d1/telemetry/Temp").metric == "temperature"


@pytest.mark.parametrize(
    ("value", "name", "problem"),
    [
        (b"not a number", NAME, "not JSON and not a number"),
        (b"\xff\xfe\x00", NAME, "not JSON and not a number"),
        (None, NAME, "not JSON and not a number"),
        (b'{"other": 1}', NAME, "no value"),
        (b"NaN", NAME, "no value"),
        (b"5", None, "no topic name says which device this is"),
        (b"5", "iotsphere/devices/d1/telemetry", "the topic name does not say the metric"),
        (b'{"value": 5, "unit": "furlong"}', NAME, "unknown unit furlong"),
        (b"5000", NAME, "outside of what temperature can be"),
        (envelope(1, timestamp="2026-11-01T13:00:00Z"), NAME, "from the future"),
        (envelope(1, timestamp="yesterday"), NAME, "the timestamp is not ISO 8601"),
        (b'{"value": 1, "pad": "' + b"x" * BYTES_MAX + b'"}', NAME, "oversized"),
    ],
)
def test_a_bad_reading_says_what_is_wrong(
    spark: SparkSession, value: bytes | None, name: str | None, problem: str
) -> None:
    """P3: malformed, oversized, wrong schema, wrong unit, future-dated: each has its fate."""
    assert one(spark, value, name).problem == problem


def test_other_messages_of_devices_are_left_alone(spark: SparkSession) -> None:
    frame = records(spark, ("iotsphere/devices/d1/commands/reboot", b"{}"), (NAME, b"1"))
    assert clean(frame, Models()).count() == 1


def test_rejects_go_to_the_dead_letter_topic_as_they_came(spark: SparkSession) -> None:
    """P3, E1: the bytes and headers stay; reason and origin are added."""
    readings = clean(records(spark, (NAME, b"1"), (NAME, b"oops")), Models())
    (row,) = rejected(readings).collect()
    assert (row.topic, bytes(row.value)) == ("iotsphere.devices.dlq", b"oops")
    assert {one.key: bytes(one.value).decode() for one in row.headers} == {
        "chordmq.topic": NAME,
        "chordmq.dead.reason": "not JSON and not a number",
        "chordmq.origin.topic": "iotsphere.devices",
        "chordmq.origin.partition": "0",
        "chordmq.origin.offset": "1",
    }
    assert [row.sourceOffset for row in good(readings).collect()] == [0]

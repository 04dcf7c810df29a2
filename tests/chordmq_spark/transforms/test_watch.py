"""The machine of one device, driven without Spark by Spark's own tester."""

from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from chordmq_spark.transforms.watch import DeviceWatch, Moments

TIME = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


def reading(value: float) -> Row:
    return Row(messageId="m", metric="temperature", value=value, unit="C", time=TIME)


def test_moments_give_mean_and_deviation() -> None:
    moments = Moments()
    for value in (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0):
        moments = moments.add(value)
    assert moments.mean == 5.0
    assert round(moments.distance(5.0 + 2 * 2.138089935), 6) == 2.0


def test_a_value_unlike_all_others_of_its_device_is_told() -> None:
    """P4: a statistical anomaly, by what is remembered of this device alone."""
    tester = TwsTester(DeviceWatch(60_000, values_min=30), timeMode="ProcessingTime")
    usual = [reading(20.0 + i % 3) for i in range(40)]
    assert tester.test("d1", usual) == []
    (alert,) = tester.test("d1", [reading(80.0)])
    assert (alert.kind, alert.deviceId, alert.value) == ("anomaly", "d1", 80.0)
    assert tester.test("d2", [reading(80.0)]) == [], "another device has no past yet"


def test_a_silent_device_is_told_once_and_again_when_it_speaks() -> None:
    """P4: offline by a timer that each reading puts off; online with the next reading."""
    tester = TwsTester(DeviceWatch(60_000), timeMode="ProcessingTime")
    tester.setProcessingTime(1_000)
    assert tester.test("d1", [reading(20.0)]) == []
    tester.setProcessingTime(31_000)
    assert tester.test("d1", [reading(20.0)]) == []
    assert tester.setProcessingTime(90_999) == []
    (offline,) = tester.setProcessingTime(91_001)
    assert (offline.kind, offline.deviceId) == ("offline", "d1")
    assert tester.setProcessingTime(500_000) == []
    (online,) = tester.test("d1", [reading(20.0)])
    assert (online.kind, online.reason) == ("online", "the device speaks again")

"""Telemetry in common names, units and time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import InvalidRequest
from chordmq.iot.models import DeviceModel, Models
from chordmq.iot.normaliser import Measure, Reading, measures

RECEIVED_MS = 1_700_000_000_000
RECEIVED = datetime.fromtimestamp(RECEIVED_MS / 1000, UTC)
ACME = DeviceModel(metrics={"t1": "temperature"}, units={"temperature": "F"})
MODELS = Models(models={"acme-9": ACME})


def read(metric: str, content: bytes, model: str = "") -> list[Measure]:
    return measures(Reading(metric, content, RECEIVED_MS, model), MODELS)


def test_names_units_and_time_become_the_common_ones() -> None:
    """E11: what a device says, in words that all devices share."""
    (found,) = read(
        "Temp", b'{"value": 212, "unit": "F", "timestamp": "2026-11-16T06:00:00+01:00"}'
    )
    assert (found.metric, round(found.value, 6), found.unit) == ("temperature", 100.0, "C")
    assert found.time == datetime(2026, 11, 16, 5, tzinfo=UTC)


def test_devices_of_a_model_mean_what_its_table_says() -> None:
    """E11: names that only they use, and a unit that they do not say."""
    (found,) = read("t1", b"32", "acme-9")
    assert (found.metric, round(found.value, 6), found.unit) == ("temperature", 0.0, "C")
    (other,) = read("t1", b"32", "another")
    assert other == Measure(metric="t1", value=32.0, time=RECEIVED)


def test_one_message_may_have_several_metrics() -> None:
    found = read("room", b'{"temp": 20, "hum": 40.5, "label": "x", "ok": true}')
    assert [(one.metric, one.value) for one in found] == [("temperature", 20.0), ("humidity", 40.5)]


@pytest.mark.parametrize("stamp", ["1700000000", "1700000000000"])
def test_a_time_may_be_in_seconds_or_milliseconds(stamp: str) -> None:
    (found,) = read("x", b'{"value": 1, "timestamp": %s}' % stamp.encode())
    assert found.time == RECEIVED


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"warm", "not JSON"),
        (b'{"value": 1, "unit": "furlong"}', "unknown unit"),
        (b'{"value": "1"}', "no value"),
        (b"null", "no value"),
        (b'{"value": 1, "timestamp": "yesterday"}', "timestamp"),
        (b'{"value": 1, "unit": 3}', "unit"),
        (b'{"a/+": 1}', "no name"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        read("x", content)


@given(st.binary(max_size=60))
def test_any_content_is_measured_or_refused(content: bytes) -> None:
    try:
        read("x", content)
    except InvalidRequest:
        return

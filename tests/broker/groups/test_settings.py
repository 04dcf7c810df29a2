"""Settings of single groups: read, refused and kept."""

from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.groups.settings import GroupSettings
from chordmq.broker.setting import Source
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import ManualClock
from chordmq.errors import InvalidSetting

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("share.auto.offset.reset", "middle"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.auto.offset.reset", "by_duration:PT"),
        ("share.record.lock.duration.ms", "10"),
        ("share.isolation.level", "maybe"),
        ("share.heartbeat.interval.ms", "60000"),
        ("errors.deadletterqueue.topic.name", "{topic}"),
        ("errors.deadletterqueue.topic.name", "__consumer_offsets"),
        ("errors.deadletterqueue.topic.name", "a b"),
        ("share.unknown", "1"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting):
        GroupSettings().with_texts({name: text})


@pytest.mark.parametrize(
    ("text", "past_ms"),
    [("P1D", DAY_MS), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("P2DT3S", 2 * DAY_MS + 3_000)],
)
def test_a_group_can_begin_some_time_ago(text: str, past_ms: int) -> None:
    settings = GroupSettings().with_texts({"share.auto.offset.reset": f"by_duration:{text}"})
    assert settings.start_ms(10 * DAY_MS) == 10 * DAY_MS - past_ms


def test_a_dead_letter_topic_can_be_named_after_the_topic() -> None:
    settings = GroupSettings().with_texts({"errors.deadletterqueue.topic.name": "{topic}.dlq"})
    assert settings.dead_letter("orders") == "orders.dlq"
    assert GroupSettings().dead_letter("orders") == ""


async def test_settings_survive_a_restart_and_can_be_taken_back(tmp_path: Path) -> None:
    name = "share.record.lock.duration.ms"
    for step in range(3):
        broker = Broker(tmp_path, BrokerSettings(), ManualClock(), Flusher())
        overrides = broker.group_settings
        if step == 0:
            await overrides.alter("g", lambda _: {name: "5000"}, validate_only=True)
            assert overrides.groups() == []
            await overrides.alter("g", lambda _: {name: "5000"})
        elif step == 1:
            assert overrides.of("g").share_record_lock_duration_ms == 5000
            assert overrides.of("other").share_record_lock_duration_ms == 30_000
            (shown,) = [row for row in overrides.shown("g") if row.setting.name == name]
            assert (shown.value, shown.source) == ("5000", Source.GROUP)
            await overrides.alter("g", lambda _: {})
        else:
            assert overrides.groups() == []
        broker.close()

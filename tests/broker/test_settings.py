"""Topic and node settings: Kafka's names, ranges, defaults and sources."""

from dataclasses import fields

import pytest

from chordmq.broker.log_settings import log_settings
from chordmq.broker.setting import Candidate, Source, text_of
from chordmq.broker.settings import (
    BrokerSettings,
    TopicSettings,
    broker_settings,
    topic_names,
    topic_settings,
)
from chordmq.errors import InvalidSetting


def test_a_topic_without_overrides_has_kafkas_defaults() -> None:
    """C7: defaults are those of Kafka 4.3, except that acks=all waits for the disk."""
    shown = {row.setting.name: row.value for row in BrokerSettings().shown_for_topic({})}
    assert shown["retention.ms"] == "604800000"
    assert shown["segment.bytes"] == "1073741824"
    assert shown["cleanup.policy"] == "delete"
    assert shown["max.message.bytes"] == "1048588"
    assert shown["compression.type"] == "producer"
    assert shown["message.timestamp.after.max.ms"] == "3600000"
    assert shown["min.cleanable.dirty.ratio"] == "0.5"
    assert shown["flush"] == "disk"


@pytest.mark.parametrize("name", sorted({*topic_settings(), *broker_settings()}))
def test_the_text_of_every_default_is_read_back_as_the_default(name: str) -> None:
    """C7: what DescribeConfigs shows can be set again."""
    setting = {**topic_settings(), **broker_settings()}[name]
    assert setting.parse(text_of(setting.default)) == setting.default
    assert setting.help.endswith(".")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "1e3"),
        ("retention.ms", "--1"),
        ("retention.ms", ""),
        ("retention.ms", "\u0661"),
        ("retention.ms", "9" * 5000),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("cleanup.policy", "shred"),
        ("leader.replication.throttled.replicas", "junk"),
        ("cleanup.policy", "delete,"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("max.compaction.lag.ms", "0"),
        ("preallocate", "yes"),
        ("local.retention.ms", "-3"),
        ("flush", "never"),
        ("flush.messages", "0"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, text: str) -> None:
    """C7: invalid values of known settings are refused, with the name in the reason."""
    with pytest.raises(InvalidSetting, match=name.replace(".", r"\.")):
        TopicSettings().with_texts({name: text})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "-1", -1),
        ("retention.ms", " 1000 ", 1000),
        ("segment.bytes", "1048576", 1048576),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("follower.replication.throttled.replicas", "*", ("*",)),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "0.01", 0.01),
        ("compression.zstd.level", "-131072", -131072),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1")),
    ],
)
def test_a_value_in_range_is_taken(name: str, text: str, value: object) -> None:
    settings = TopicSettings().with_texts({name: text})
    assert getattr(settings, name.replace(".", "_")) == value


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    """C7: unknown settings are refused."""
    with pytest.raises(InvalidSetting, match=r"retention\.msec; did you mean retention\.ms\?"):
        TopicSettings().with_texts({"retention.msec": "1"})
    with pytest.raises(InvalidSetting, match=r"Unknown configuration name: zzz$"):
        TopicSettings().with_texts({"zzz": "1"})


def test_the_smallest_compaction_lag_may_not_exceed_the_largest() -> None:
    with pytest.raises(InvalidSetting, match="larger than"):
        TopicSettings().with_texts({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})


def test_one_message_per_flush_asks_for_the_disk_whatever_flush_says() -> None:
    assert TopicSettings().flushes_to_disk
    assert not TopicSettings(flush="os").flushes_to_disk
    assert not TopicSettings(flush="os", flush_messages=2).flushes_to_disk
    assert TopicSettings(flush="os", flush_messages=1).flushes_to_disk


def test_every_setting_of_a_log_comes_from_the_topic() -> None:
    """C7: no setting is accepted and then dropped on its way to the log."""
    overrides = {
        "segment.bytes": "2000001", "segment.ms": "2", "index.interval.bytes": "3",
        "retention.ms": "4", "retention.bytes": "5", "memory.retention.ms": "6",
        "cleanup.policy": "compact", "delete.retention.ms": "7", "min.compaction.lag.ms": "8",
        "max.compaction.lag.ms": "9", "min.cleanable.dirty.ratio": "0.1",
    }  # fmt: skip
    plain, changed = TopicSettings(), TopicSettings().with_texts(overrides)
    before, after = log_settings(plain), log_settings(changed)
    same = [f.name for f in fields(before) if getattr(before, f.name) == getattr(after, f.name)]
    assert same == []


def test_the_nodes_configuration_gives_the_defaults_of_its_topics() -> None:
    """C7: the source of each value is shown, with the values behind it."""
    node = BrokerSettings.from_texts({"log.retention.ms": "5000", "num.partitions": "3"})
    assert node.num_partitions == 3
    assert node.topic_defaults().retention_ms == 5000
    row = next(
        row
        for row in node.shown_for_topic({"retention.ms": "7"})
        if row.setting.name == "retention.ms"
    )
    assert row.candidates == (
        Candidate("retention.ms", "7", Source.TOPIC),
        Candidate("log.retention.ms", "5000", Source.NODE),
        Candidate("log.retention.ms", "604800000", Source.DEFAULT),
    )


def test_a_dynamic_default_stands_before_the_configured_one() -> None:
    node = BrokerSettings.from_texts({"log.retention.ms": "5000"})
    node = node.with_dynamic({"log.retention.ms": "6000"})
    row = next(row for row in node.shown() if row.setting.name == "log.retention.ms")
    assert [(c.value, c.source) for c in row.candidates] == [
        ("6000", Source.NODE_DYNAMIC),
        ("5000", Source.NODE),
        ("604800000", Source.DEFAULT),
    ]
    assert node.topic_defaults().retention_ms == 6000


def test_a_setting_of_the_configuration_file_cannot_be_changed_while_running() -> None:
    with pytest.raises(InvalidSetting, match="only be changed in the node's configuration"):
        BrokerSettings().with_dynamic({"num.partitions": "3"})
    with pytest.raises(InvalidSetting, match="Unknown configuration name"):
        BrokerSettings().with_dynamic({"log.retention.mss": "3"})
    with pytest.raises(InvalidSetting, match=r"retention\.ms"):
        BrokerSettings().with_dynamic({"log.retention.ms": "-9"})


def test_the_node_shows_each_name_once() -> None:
    names = [row.setting.name for row in BrokerSettings().shown()]
    assert len(names) == len(set(names))
    assert set(topic_names()) <= set(names)


def test_an_unknown_node_setting_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"did you mean num\.partitions\?"):
        BrokerSettings.from_texts({"num.partition": "3"})

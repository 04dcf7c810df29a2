"""E2: names with levels on log topics."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.names import (
    NAME_HEADER,
    Destination,
    Names,
    Rule,
    is_filter,
    name_of,
    named,
    read_rules,
    without_name,
)
from chordmq.broker.subscriptions import matches
from chordmq.broker.topic import check_name as check_topic
from chordmq.broker.topic_names import TopicNames
from chordmq.errors import InvalidSetting, InvalidTopicName
from chordmq.records.record import NewRecord, Record

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/+#\0"), max_size=8)
NAMES = st.lists(TEXT, min_size=2, max_size=5).map("/".join)


@dataclass
class OneTopic:
    """A log topic, as far as names ask for it."""

    name: str
    is_internal: bool = False


class SomeTopics:
    """The log topics of a broker; remembers which were looked at."""

    def __init__(self, *topics: OneTopic) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self.names = TopicNames(self._topics)
        self.looked_at: list[str] = []

    def find(self, name: str) -> OneTopic | None:
        self.looked_at.append(name)
        return self._topics.get(name)


def found(names: Names, wanted: str, *known: str) -> list[str]:
    """Return which of the known log topics a filter reaches; both ways of asking agree."""
    reach = names.reach(wanted)
    among = sorted(one.name for one in reach.among(SomeTopics(*map(OneTopic, known))))
    assert among == sorted(filter(reach.covers, known))
    return among


@pytest.mark.parametrize(
    ("name", "topic", "key"),
    [
        ("iotsphere/devices/d7/telemetry/temperature", "iotsphere.devices", b"d7"),
        ("x/y", "x.y", None),
        ("x/y/", "x.y", b""),
        ("orders", "orders", None),
        ("orders.v2", "orders.v2", None),
        ("más/größe/1", "m_s.gr__e", b"1"),
        ("/y/k", "_.y", b"k"),
    ],
)
def test_the_first_two_levels_are_the_log_topic_and_the_third_the_key(
    name: str, topic: str, key: bytes | None
) -> None:
    """E2: what belongs to one device has one key, and so one order."""
    assert Names().destination(name) == Destination(topic, key)


@given(NAMES)
def test_every_name_has_a_legal_log_topic_that_its_filters_read(name: str) -> None:
    topic = Names().destination(name).topic
    check_topic(topic)
    first, second, *_ = name.split("/")
    for wanted in (name, f"{first}/#", f"+/{second}/#", "#", f"{first}/+/#"):
        assert found(Names(), wanted, topic) == [topic], wanted


def test_a_log_topic_too_long_is_cut_and_still_found() -> None:
    names = Names()
    long, other = "a" * 200 + "/" + "b" * 200, "a" * 200 + "/" + "b" * 201
    topic = names.destination(long).topic
    check_topic(topic)
    assert topic != names.destination(other).topic
    assert found(names, long, topic) == [topic]
    assert found(names, "+/" + "b" * 200, topic) == [topic]


@pytest.mark.parametrize(
    ("wanted", "looked_at"),
    [
        ("x/y/z", ["x.y"]),
        ("x/y/#", ["x.y"]),
        ("x", ["x"]),
        ("x/+", ["x.internal", "x.y"]),
        ("x/#", ["x", "x.internal", "x.y"]),
        ("+/y/#", ["x.y"]),
    ],
)
def test_a_filter_looks_at_no_other_log_topics_than_it_may_match(
    wanted: str, looked_at: list[str]
) -> None:
    """E2: among thousands of log topics, a filter costs by what it matches."""
    others = [OneTopic(f"other-{number}.{number}") for number in range(9)]
    internal = OneTopic("x.internal", is_internal=True)
    topics = SomeTopics(OneTopic("x.y"), OneTopic("x"), internal, *others)
    reached = Names().reach(wanted).among(topics)
    assert sorted(topics.looked_at) == looked_at
    assert sorted(one.name for one in reached) == [one for one in looked_at if "int" not in one]


def test_the_first_rule_that_matches_counts() -> None:
    rules = read_rules(
        "iot/devices/+/telemetry/# -> telemetry {3}; iot/# -> iot {2}-{9}; logs/# -> logs;"
    )
    assert rules[2] == Rule("logs/#", "logs", None)
    names = Names(rules)
    assert names.destination("iot/devices/d7/telemetry/t") == Destination("telemetry", b"d7")
    assert names.destination("iot/devices/d7/state") == Destination("iot", b"devices-")
    assert names.destination("logs/a/b") == Destination("logs", None)
    known = ["telemetry", "iot", "logs", "iot.devices", "x.y"]
    reached = ["iot", "iot.devices", "telemetry"]
    assert found(names, "iot/devices/d7/#", *known) == reached
    assert found(names, "iot/+/d7/#", *known) == reached
    assert found(names, "iot/devices/d7/telemetry", *known) == reached
    assert names.ruled("logs/+") == {"logs"}


@pytest.mark.parametrize("text", ["a/b", "a/# ->", "a/#/b -> t", "a -> t/u", "a -> t k more"])
def test_a_rule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"names\.rules"):
        read_rules(text)


def test_a_name_with_a_wildcard_is_refused() -> None:
    with pytest.raises(InvalidTopicName):
        Names().destination("a/+/c")


def test_a_record_bears_its_name_once() -> None:
    record = NewRecord(0, b"k", b"v", ((NAME_HEADER, b"forged"), ("own", b"1")))
    sent = named(record, "x/y/z")
    stored = Record(0, 0, sent.key, sent.value, sent.headers)
    assert name_of("x.y", stored) == "x/y/z"
    assert without_name(stored.headers) == (("own", b"1"),)
    assert named(record, "plain") is record


@pytest.mark.parametrize(
    ("topic", "key", "name"),
    [("x.y", b"z", "x/y/z"), ("x.y", None, "x/y"), ("plain", b"z", "plain"), (".x", b"z", ".x")],
)
def test_a_record_without_a_name_is_called_by_its_topic_and_key(
    topic: str, key: bytes | None, name: str
) -> None:
    """E2: filters also match what Kafka's producers write."""
    record = Record(0, 0, key, b"")
    assert name_of(topic, record) == name
    assert found(Names(), name, topic) == [topic]
    assert matches("#", name)


def test_only_levels_and_wildcards_make_a_filter() -> None:
    assert [is_filter(text) for text in ("orders", "a.b", "a/b", "+", "#")] == [
        False, False, True, True, True,
    ]  # fmt: skip

"""Each setting has a value, a source and a meaning."""

from pathlib import Path

import pytest

from chordmq.cli.setting_facts import HIDDEN, Fact, effective, meaning, texts_of
from chordmq.config import Config, known
from chordmq.errors import InvalidSetting


def test_every_setting_is_explained() -> None:
    """X4: `config explain` has something to say of every setting."""
    for name in known():
        found = meaning(name)
        assert found.about.endswith((".", ").")), name
        assert found.kind
    assert texts_of(Config()).keys() == set(known())


def test_the_strongest_source_of_a_value_is_named(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("kafka: {port: 1, host: 127.0.0.2}\nbroker: {num.partitions: 7}\n")
    environment = {"CHORDMQ_KAFKA_PORT": "2", "CHORDMQ_HTTP_PORT": "3"}
    found = {one.name: one for one in effective(file, environment, ["kafka.port=4"])}
    assert found["kafka.port"] == Fact(name="kafka.port", value="4", source="flag", default="9092")
    assert (found["http.port"].value, found["http.port"].source) == ("3", "environment")
    assert (found["kafka.host"].value, found["kafka.host"].source) == ("127.0.0.2", "file")
    assert found["broker.num.partitions"].value == "7"
    assert found["mqtt.port"].source == "default"


def test_secrets_are_not_shown() -> None:
    given = [
        "apps.password=geheim",
        "cluster.password=geheim",
        "extension.x.token=geheim",
        "extension.x.size=3",
    ]
    found = {one.name: one.value for one in effective(None, {}, given)}
    hidden = ("apps.password", "cluster.password", "extension.x.token")
    assert [found[name] for name in hidden] == [HIDDEN] * 3
    assert found["extension.x.size"] == "3"


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidSetting, match=r"kafka\.port"):
        meaning("kafka.prt")


def test_kafkas_names_need_no_prefix() -> None:
    assert meaning("log.retention.ms") == meaning("broker.log.retention.ms")
    assert meaning("log.retention.ms").dynamic
    assert not meaning("kafka.port").dynamic

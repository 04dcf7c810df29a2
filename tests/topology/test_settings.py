"""What can be set for pipes, and what cannot be meant."""

import pytest

from chordmq.config import load
from chordmq.errors import InvalidSetting
from chordmq.topology.settings import PipesSettings, patterns


def test_labels_and_patterns_are_read() -> None:
    settings = PipesSettings(labels="region=west, kind=shop", role="POS", registry="http://r")
    settings.check()
    assert settings.label_pairs == {"region": "west", "kind": "shop"}
    assert settings.wanted_role == "POS"
    assert [one.pattern for one in patterns(r"a, b\..*")] == ["a", r"b\..*"]
    assert not PipesSettings().is_on


@pytest.mark.parametrize(
    "wrong",
    ["role=KING", "topics=(", "registry=ftp://x", "parent=host:8080", "upstream=a"],
)
def test_what_cannot_be_meant_is_refused_by_its_name(wrong: str) -> None:
    with pytest.raises(InvalidSetting, match=f"pipes.{wrong.partition('=')[0]}"):
        load(environment={}, assignments=[f"pipes.{wrong}"])

"""Options of all commands are read as people write them."""

import pytest
import typer

from chordmq.cli.options import address, pairs


def test_settings_are_read_as_name_and_value() -> None:
    assert pairs(["a=1", "b = x=y"]) == {"a": "1", "b": "x=y"}
    assert pairs(None) == {}


@pytest.mark.parametrize("text", ["a", "=1", " =1"])
def test_a_setting_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        pairs([text])


def test_the_default_broker_is_on_this_machine() -> None:
    assert address(None) == "127.0.0.1:9092"
    assert address("x:1") == "x:1"

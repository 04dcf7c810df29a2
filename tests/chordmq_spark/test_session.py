"""How Spark is started."""

import os

import pytest

from chordmq_spark.session import environment


def test_variables_are_there_in_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHORDMQ_TEST_WORD", raising=False)
    with environment({"CHORDMQ_TEST_WORD": "said"}):
        assert os.environ["CHORDMQ_TEST_WORD"] == "said"
    assert "CHORDMQ_TEST_WORD" not in os.environ


def test_what_someone_has_set_is_left_to_him(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORDMQ_TEST_WORD", "his")
    with environment({"CHORDMQ_TEST_WORD": "said"}):
        assert os.environ["CHORDMQ_TEST_WORD"] == "his"
    assert os.environ["CHORDMQ_TEST_WORD"] == "his"

"""Libraries that are loaded without others."""

import sys

import pytest

from chordmq.loading import load_without


def test_a_library_finds_another_only_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    with pytest.raises(ImportError):
        load_without("this", "this")
    assert "this" not in sys.modules
    assert load_without("antigravity", "json") is sys.modules["json"]
    assert "antigravity" not in sys.modules


def test_what_is_loaded_already_stays() -> None:
    assert load_without("json", "string").ascii_letters
    assert "json" in sys.modules

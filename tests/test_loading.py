"""Libraries that are loaded without others."""

import asyncio
import sys

import pytest

from chordmq.loading import load_late, load_without


def test_a_library_finds_another_only_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    with pytest.raises(ImportError):
        load_without("this", "this")
    assert "this" not in sys.modules
    assert load_without("antigravity", "json") is sys.modules["json"]
    assert "antigravity" not in sys.modules


async def test_modules_are_loaded_late_and_once() -> None:
    found = await asyncio.gather(*(load_late("colorsys") for _ in range(5)))
    assert {id(one) for one in found} == {id(sys.modules["colorsys"])}
    with pytest.raises(ImportError):
        await load_late("no_such_module")


def test_what_is_loaded_already_stays() -> None:
    assert load_without("json", "string").ascii_letters
    assert "json" in sys.modules

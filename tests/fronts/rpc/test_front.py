"""Whether a procedure-call front is there: as its libraries and its settings say."""

from types import SimpleNamespace
from typing import Any

import pytest

from chordmq.errors import CannotStart
from chordmq.fronts.rpc.front import opened
from chordmq.fronts.rpc.settings import CapnpSettings


def opening(enabled: Any) -> Any:
    """Return what a front is given that is not going to be opened."""
    return SimpleNamespace(listener=SimpleNamespace(settings=CapnpSettings(enabled=enabled)))


def test_a_front_that_must_be_there_says_what_to_install() -> None:
    with pytest.raises(CannotStart, match=r"pip install 'chordmq\[capnp\]'"):
        opened("capnp", opening("on"), is_installed=False)


@pytest.mark.parametrize(("enabled", "is_installed"), [("auto", False), ("off", True)])
def test_a_front_that_need_not_be_there_is_not(enabled: str, is_installed: bool) -> None:
    assert opened("capnp", opening(enabled), is_installed=is_installed) is None

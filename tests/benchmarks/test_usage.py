"""What processes cost, some of which come and go while it is read."""

import os
import subprocess
import sys

import pytest

from benchmarks import usage


def ended() -> int:
    """Return the number of a process that is not there any more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_child_that_has_ended_meanwhile_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_descendants", lambda _: [ended()])
    assert usage.usage_of(os.getpid()).rss_mb > 0


def test_a_process_that_has_ended_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        usage.usage_of(ended())


def test_children_count_with_their_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        both, alone = usage.usage_of(os.getpid()), usage.usage_of(child.pid)
        child.communicate(b"\n")
    assert both.rss_mb > alone.rss_mb > 0

"""A newcomer's path: README's first command, the console, kcat, the demo, an alert."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.interop.program import ROOT, installed, run
from tests.running_node import RunningNode
from tests.waiting import wait_until

ALERT_S = 240.0
"""Spark starts, reads and computes in it, beside the other tests."""
FIRST_ALERT_S = 900.0
"""In a new environment: Spark gives its Python programs ten seconds to load, and tries again."""


class NewcomersNode(RunningNode):
    """Everything that `make run` starts, on ports that are free."""

    def __init__(self, directory: Path, start: list[str]) -> None:
        super().__init__(directory, {"http.demo": "true"})
        self._start = start

    def _command(self) -> list[str]:
        _, *assignments = super()._command()[3:]
        if self._start[0] == "make":
            return [*self._start, f"ARGS={' '.join(assignments)}"]
        return [*self._start, *assignments]

    def close(self) -> None:
        """End everything that was started."""
        if self.is_running():
            os.killpg(self.pid, signal.SIGTERM)
            self.wait()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[NewcomersNode]:
    """Give what `chordmq up` starts in this environment."""
    node = NewcomersNode(tmp_path / "up", [sys.executable, "-m", "chordmq", "up", "--pipeline"])
    yield node
    node.close()


@pytest.fixture
def cloned(tmp_path: Path) -> Iterator[NewcomersNode]:
    """Give what `make run` starts in a clean clone."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    node = NewcomersNode(tmp_path / "node", ["make", "-C", str(clone), "run"])
    yield node
    node.close()


def walk(page: Page, node: RunningNode, alert_s: float = ALERT_S) -> None:
    """Do what README says and the console offers."""
    page.goto(node.http)
    page.get_by_label("1. A topic holds messages").fill("greetings")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_role("button", name="Send message").click()
    rows = page.get_by_role("region", name="Messages").locator("tbody tr")
    expect(rows.filter(has_text="hello")).to_have_count(1)
    expect(page.locator(".live")).to_contain_text("live,")
    kcat = [installed("kcat"), "-b", node.bootstrap, "-P", "-t", "greetings"]
    run(kcat, given=b"from kcat\n")
    expect(rows.filter(has_text="from kcat")).to_have_count(1)
    page.goto(f"{node.http}/#/devices")
    page.get_by_role("button", name="Start demo devices").click()
    expect(page.get_by_role("link", name="cold-room-000")).to_be_visible()
    page.goto(f"{node.http}/#/pipeline")
    alerts = page.get_by_role("region", name="Alerts").locator("tbody tr")
    wait_until(lambda: page.reload() is not None and _is_there(alerts), alert_s)


def _is_there(rows: Locator) -> bool:
    try:
        expect(rows.first).to_be_visible(timeout=5_000)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_newcomer_gets_from_an_empty_broker_to_an_alert(page: Page, up: NewcomersNode) -> None:
    """X3, X4, P5: no step is outside of README and the console."""
    up.start()
    walk(page, up)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_newcomer_starts_from_a_clean_clone(
    page: Page, cloned: NewcomersNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3, X4: git clone, make run, and the same."""
    monkeypatch.setattr("tests.running_node.READY_TIMEOUT_S", 900)
    cloned.start()
    walk(page, cloned, FIRST_ALERT_S)

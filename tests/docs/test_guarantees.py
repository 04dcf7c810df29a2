"""The page of guarantees: every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
NAMED = re.compile(r"`((?:[a-z_]+/)+test_[a-z_]+\.py)(?:::(test_\w+))?`")


def test_every_promise_names_a_test_that_exists() -> None:
    named = NAMED.findall((ROOT / "docs/guarantees.md").read_text())
    assert len(named) > 10
    for file, function in named:
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert not function or f"def {function}(" in path.read_text(), f"{file}::{function}"

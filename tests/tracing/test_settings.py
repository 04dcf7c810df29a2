"""Tracing is off unless somebody says where traces go."""

import subprocess
import sys

import pytest

from chordmq.errors import InvalidSetting
from chordmq.tracing.settings import TracingSettings


def test_nothing_is_traced_by_default() -> None:
    """C15: tracing costs nothing where it is off: a node loads nothing of it."""
    assert TracingSettings().open() is None
    script = (
        "import sys, chordmq.node\n"
        "from chordmq.clock import SystemClock\n"
        "from chordmq.config import Config\n"
        "assert chordmq.node.Node(Config(), SystemClock()).tracing is None\n"
        "print('opentelemetry' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("wrong", [{"endpoint": "localhost:4318"}, {"sample": 1.5}])
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match=r"tracing\."):
        TracingSettings(**wrong).check()  # type: ignore[arg-type]

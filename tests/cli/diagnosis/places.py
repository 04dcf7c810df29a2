"""Places for the doctor to look at: settings, and a kernel that says what a test wants."""

from collections.abc import Mapping
from pathlib import Path

from chordmq.cli.diagnosis.finding import Check, Finding, Place
from chordmq.config import load


def place(*assignments: str, root: Path = Path("/")) -> Place:
    """Return what a node with these settings would use."""
    config = load(environment={}, assignments=["insecure=true", *assignments])
    return Place(config=config, bootstrap="127.0.0.1:1", url="http://127.0.0.1:1", root=root)


def kernel(root: Path, files: Mapping[str, str]) -> Path:
    """Write what the kernel is to say, and return the root below which it does."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def only(check: Check, where: Place) -> Finding:
    """Return the one thing that a check finds."""
    (finding,) = check(where)
    assert (finding.fix is None) == (finding.status == "ok"), "what is wrong comes with a fix"
    return finding

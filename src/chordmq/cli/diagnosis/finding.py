"""What a check finds, and what it looks at."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from chordmq.config import Config

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `fix` says what to do unless all is well."""

    check: str
    status: str
    detail: str
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the node would use, and where it would run."""

    config: "Config"
    bootstrap: str
    url: str
    root: Path = Path("/")
    """Below which the kernel shows itself: proc, sys."""

    def kernel(self, path: str) -> str:
        """Return what the kernel says below this path; nothing where it has no such file."""
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return ""


Check = Callable[[Place], Iterator[Finding]]

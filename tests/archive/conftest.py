"""An archive that nobody else has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordmq.archive.table import Archive


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    found = Archive(tmp_path / "archive")
    yield found
    found.close()

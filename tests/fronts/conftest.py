"""What tests of several fronts see of readers and of what goes wrong behind their backs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fronts.cold import Looks


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Count how often readers look whether there is something."""
    return Looks(monkeypatch)


@pytest.fixture
async def no_complaints(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Fail if an error is logged, or the event loop has something to complain of."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, about: complaints.append(about))
    yield
    assert not complaints
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]

"""The disk-space watch: says when room gets low, and when writes must stop while reads go on."""

import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from chordmq.dataclass import dataclass
from chordmq.logs import get_logger

log = get_logger(__name__)


class Space(Enum):
    """How much room the disk has."""

    OK = "ok"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceLimits:
    """Free room below which to warn and to stop: the smaller of the bytes and the share counts."""

    warn_bytes: int = 2 << 30
    warn_share: float = 0.05
    stop_bytes: int = 256 << 20
    stop_share: float = 0.01


class DiskWatch:
    """Looks at the file system of one directory."""

    def __init__(
        self,
        directory: Path,
        limits: SpaceLimits | None = None,
        measure: Callable[[Path], os.statvfs_result] = os.statvfs,
    ) -> None:
        self._directory = directory
        self._limits = limits or SpaceLimits()
        self._measure = measure
        self.free_bytes = self.total_bytes = 0
        self.state = Space.OK
        self.look()

    def look(self) -> Space:
        """Measure anew, and log a change of state."""
        found = self._measure(self._directory)
        self.free_bytes = found.f_bavail * found.f_frsize
        self.total_bytes = found.f_blocks * found.f_frsize
        state = self._judge()
        if state is not self.state:
            level = {Space.OK: log.info, Space.LOW: log.warning, Space.FULL: log.error}[state]
            level("disk space", state=state.value, free_bytes=self.free_bytes)
        self.state = state
        return state

    def _judge(self) -> Space:
        limits, total = self._limits, self.total_bytes
        if self.free_bytes < min(limits.stop_bytes, total * limits.stop_share):
            return Space.FULL
        if self.free_bytes < min(limits.warn_bytes, total * limits.warn_share):
            return Space.LOW
        return Space.OK

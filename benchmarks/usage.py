"""What a broker's process costs: processor seconds and resident memory, read from /proc."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
ENDED = FileNotFoundError, ProcessLookupError
"""What reading of a process raises that is not there any more."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost so far of a process with all its threads and children."""

    cpu_s: float
    rss_mb: float
    peak_mb: float
    """The largest resident memory the process ever had."""


def usage_of(pid: int) -> Usage:
    """Read the cost of the process and of every process below it."""
    cpu = rss = peak = 0.0
    for process in (pid, *_descendants(pid)):
        try:
            cpu_s, memory = _cpu_s(process), _memory_kb(process)
        except ENDED:
            if process == pid:
                raise
            continue  # its parent counts what it took, once it has waited for it
        cpu += cpu_s
        rss += memory.get("VmRSS", 0) / 1024
        peak += memory.get("VmHWM", 0) / 1024
    return Usage(cpu, rss, peak)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(*ENDED):
        for children in PROC.glob(f"{pid}/task/*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _cpu_s(pid: int) -> float:
    """Return user and system time, of the process and of the children it waited for."""
    fields = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def _memory_kb(pid: int) -> dict[str, int]:
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Vm")}

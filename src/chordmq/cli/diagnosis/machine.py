"""Checks of the machine: Python, limits, memory, kernel, clock, Java and optional packages."""

import locale
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from chordmq.cli.diagnosis.finding import FAIL, OK, WARN, Finding, Place

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
OPEN_FILES_GOOD = 65_536
OPEN_FILES_MIN = 1_024
NODE_BYTES = 256 * 1024**2
"""What a node needs beside the records that it keeps in memory."""
SWAPPINESS_GOOD = 10
CLOCK_FLOOR = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_SKEW_S_MAX = 5.0
EXTRAS = {
    "archive": "pyiceberg",
    "capnp": "capnp",
    "grpc": "grpc",
    "http3": "hypercorn",
    "ldap": "ldap3",
    "mongodb": "pymongo",
    "spark": "pyspark",
}
"""Extra of the package to a module that it brings."""
COMPILED = ("chordmq.records.one_pass",)
"""What an installation compiles where it can; plain Python does the same without it."""


def python(place: Place) -> Iterator[Finding]:
    """Check the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON_MIN:
        yield Finding("Python", OK, found)
    else:
        yield Finding("Python", FAIL, found, "install Python 3.11 or newer")


def acceleration(place: Place) -> Iterator[Finding]:
    """Check that the compiled parts are there."""
    if find_spec("uvloop") is None:
        yield Finding("event loop", FAIL, "uvloop is missing", "pip install uvloop")
    else:
        yield Finding("event loop", OK, "uvloop")
    try:
        import crc32c
    except ImportError:
        yield Finding("checksums", FAIL, "crc32c is missing", "pip install crc32c")
        return
    if getattr(crc32c, "hardware_based", True):
        yield Finding("checksums", OK, "crc32c in hardware")
    else:
        yield Finding(
            "checksums", WARN, "crc32c in software", "expected on an old CPU; costs throughput"
        )


def compiled(place: Place) -> Iterator[Finding]:
    """Check which modules run compiled."""
    plain = [name for name in COMPILED if not _is_compiled(name)]
    if not plain:
        yield Finding("compiled modules", OK, f"{len(COMPILED)} of {len(COMPILED)}")
        return
    fix = "for more throughput install gcc and python3-dev, and then the package again"
    yield Finding("compiled modules", WARN, f"plain Python in place of {', '.join(plain)}", fix)


def _is_compiled(name: str) -> bool:
    found = find_spec(name)
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))


def open_files(place: Place) -> Iterator[Finding]:
    """Check how many files and connections one process may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The node raises the soft limit to the hard one when it starts.
    detail = f"{hard:,} (now {soft:,}; a node raises it to the hard limit)"
    fix = f"raise the hard limit: LimitNOFILE={OPEN_FILES_GOOD} in the systemd unit, or ulimit -Hn"
    unlimited = hard == resource.RLIM_INFINITY
    if unlimited or hard >= OPEN_FILES_GOOD:
        yield Finding("open files", OK, "no limit" if unlimited else detail)
    else:
        yield Finding("open files", WARN if hard >= OPEN_FILES_MIN else FAIL, detail, fix)


def memory(place: Place) -> Iterator[Finding]:
    """Check that the container, if it is one, leaves the node enough memory."""
    limits = [
        place.kernel("sys/fs/cgroup/memory.max"),
        place.kernel("sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ]
    total = re.search(r"MemTotal:\s+(\d+) kB", place.kernel("proc/meminfo"))
    machine = int(total[1]) * 1024 if total else 0
    limit = min((int(text) for text in limits if text.isdigit()), default=machine)
    if not limit:
        return
    needed = NODE_BYTES + place.config.broker.log_memory_max_bytes
    found = min(limit, machine) if machine else limit
    detail = f"{found // 1024**2:,} MiB for a node that wants {needed // 1024**2:,} MiB"
    if found >= needed:
        yield Finding("memory", OK, detail)
    else:
        fix = "raise the limit of the container, or lower broker.log.memory.max.bytes"
        yield Finding("memory", WARN, detail, fix)


def kernel(place: Place) -> Iterator[Finding]:
    """Give hints on settings of the kernel that cost throughput or make answers late."""
    pages = place.kernel("sys/kernel/mm/transparent_hugepage/enabled")
    if "[always]" in pages:
        fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        yield Finding("huge pages", WARN, "always: the kernel may pause the node", fix)
    swappiness = place.kernel("proc/sys/vm/swappiness")
    has_swap = len(place.kernel("proc/swaps").splitlines()) > 1
    if has_swap and swappiness.isdigit() and int(swappiness) > SWAPPINESS_GOOD:
        detail = f"vm.swappiness is {swappiness}: the node may be swapped out"
        yield Finding("swap", WARN, detail, f"sysctl -w vm.swappiness={SWAPPINESS_GOOD}")
    backlog = place.kernel("proc/sys/net/core/somaxconn")
    from chordmq.fronts.handshake import BACKLOG

    if backlog.isdigit() and int(backlog) < BACKLOG:
        detail = f"net.core.somaxconn is {backlog}: clients that come all at once are refused"
        yield Finding("connection queue", WARN, detail, f"sysctl -w net.core.somaxconn={BACKLOG}")


def words(place: Place) -> Iterator[Finding]:
    """Check that names and logs can be written in any language, and name the time zone."""
    encoding = locale.getpreferredencoding(do_setlocale=False)
    zone = datetime.now(tz=UTC).astimezone().tzname()
    detail = f"{encoding}, time zone {zone} (the node's log and all records are in UTC)"
    if encoding.upper().replace("-", "") == "UTF8":
        yield Finding("locale", OK, detail)
    else:
        yield Finding("locale", WARN, detail, "export LC_ALL=C.UTF-8")


def clock(place: Place) -> Iterator[Finding]:
    """Check that the clock is plausible and agrees with the file system."""
    now = datetime.now(tz=UTC)
    fix = "set the clock, and run a time service: timedatectl set-ntp true"
    if now < CLOCK_FLOOR:
        yield Finding("clock", FAIL, f"it says {now:%Y-%m-%d}", fix)
        return
    with tempfile.NamedTemporaryFile() as probe:
        skew_s = abs(Path(probe.name).stat().st_mtime - datetime.now(tz=UTC).timestamp())
    if skew_s > CLOCK_SKEW_S_MAX:
        yield Finding("clock", WARN, f"file times are {skew_s:.0f} s away from it", fix)
    else:
        yield Finding("clock", OK, f"{now:%Y-%m-%d %H:%M:%S} UTC")


def java(place: Place) -> Iterator[Finding]:
    """Look for Java, which only Kafka's own tools and the pipeline need."""
    found = shutil.which("java")
    fix = "only for Kafka's own tools and Spark: apt-get install default-jre-headless"
    if found is None:
        yield Finding("Java (optional)", WARN, "not installed", fix)
        return
    answer = subprocess.run(  # noqa: S603 (the path comes from the user's own PATH)
        [found, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    text = answer.stderr or answer.stdout
    detail = next(iter(text.splitlines()), found)
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    if version and int(version[1]) < JAVA_MIN:
        yield Finding("Java (optional)", WARN, f"{detail}: Spark wants {JAVA_MIN} or newer", fix)
    else:
        yield Finding("Java (optional)", OK, detail)


def extras(place: Place) -> Iterator[Finding]:
    """Check that the optional packages are there that the settings ask for."""
    config = place.config
    wanted = {
        "capnp": config.capnp.enabled == "on",
        "grpc": config.grpc.enabled == "on",
        "http3": bool(config.http.http3_port),
        "ldap": bool(config.auth.ldap.url),
    }
    missing = [extra for extra, module in EXTRAS.items() if find_spec(module) is None]
    needed = [extra for extra in missing if wanted.get(extra)]
    if needed:
        fix = f"pip install 'chordmq[{','.join(needed)}]'"
        yield Finding("extras", FAIL, f"settings ask for {', '.join(needed)}", fix)
    elif missing:
        hint = f"chordmq[{','.join(missing)}]"
        yield Finding(
            "extras", OK, f"nothing that the settings ask for is missing; not there: {hint}"
        )
    else:
        yield Finding("extras", OK, "all are installed")

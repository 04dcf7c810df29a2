"""Measures ChordMQ and Apache Kafka in turn, on one machine, with the same clients and settings."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks import report
from benchmarks.archive import archive
from benchmarks.cases import CASES, Case
from benchmarks.load import LoadFailed, uncollected
from benchmarks.memory import PageCache, page_cache
from benchmarks.peers import ROOT, PeerFailed, kafka_libs, start_chordmq, start_kafka
from benchmarks.pipeline import pipeline
from benchmarks.pipes import pipe
from benchmarks.queries import consumer_app
from benchmarks.recovery import Starter, recovery
from benchmarks.replicated import replicated
from benchmarks.secured import secured
from benchmarks.session import CountMismatch, Profile, Sample, Session
from benchmarks.settle import settle
from benchmarks.sockets import SPARE_FILES, allow_files
from benchmarks.spark import spark
from benchmarks.wire import WireError

WORK = ROOT / ".cache" / "bench"
MB = 1_000_000
DEFAULT = Profile(
    rounds=3, produce_s=5.0, bytes_max=500 * MB, java_bytes=1000 * MB, consume_messages=2_500_000,
    latency_s=10.0, connections=10_000, recovery_bytes=2 << 30, spark_rows=10_000_000,
    pipeline_messages=2_000_000,
)  # fmt: skip
QUICK = Profile(
    rounds=1, produce_s=2.0, bytes_max=200 * MB, java_bytes=100 * MB, consume_messages=2_000_000,
    latency_s=4.0, connections=10_000, recovery_bytes=1 << 29, spark_rows=2_000_000,
    pipeline_messages=600_000,
)  # fmt: skip
FAILURES = (
    PeerFailed, LoadFailed, CountMismatch, WireError, KafkaException, OSError, TimeoutError,
)  # fmt: skip

console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)


@dataclass(slots=True)
class Contender:
    """A broker to measure: how it starts, and what was found."""

    name: str
    ours: bool
    start: Starter
    samples: list[Sample] = field(default_factory=list)
    failures: int = 0


ALONE: dict[str, Callable[[Contender, Path, Profile], list[Sample]]] = {
    "secured": lambda one, directory, profile: secured(directory, one.ours, profile),
    "replicated": lambda one, directory, profile: replicated(directory, one.ours, profile),
    "recovery": lambda one, directory, profile: recovery(
        one.start, directory, one.ours, profile.recovery_bytes
    ),
    "spark": lambda one, directory, profile: spark(directory, one.ours, profile.spark_rows),
    "archive": lambda one, directory, profile: (
        archive(directory, profile.spark_rows) if one.ours else []
    ),
    "pipeline": lambda one, directory, profile: (
        pipeline(directory, profile.pipeline_messages) if one.ours else []
    ),
    "pipe": lambda one, directory, profile: pipe(directory, profile) if one.ours else [],
    "consumer_app": lambda one, directory, _profile: consumer_app(directory) if one.ours else [],
}
"""Cases that start brokers of their own, after those that share one."""


def main() -> int:
    """Run the chosen cases and write what was found."""
    options = _options()
    if options.list:
        for case in CASES:
            console.print(f"{case.name:32} {case.about}")
        console.print(f"{'secured':32} TLS, logins and ACLs")
        console.print(f"{'replicated':32} three nodes with three copies, and the loss of one")
        console.print(f"{'recovery':32} return after kill -9, for each GiB not flushed")
        console.print(f"{'spark':32} one topic read by our source and by Spark's connector")
        console.print(f"{'archive':32} a topic into Parquet files")
        console.print(f"{'pipeline':32} readings to MongoDB, and alerts from MQTT to WebSocket")
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    profile = QUICK if options.quick else DEFAULT
    allow_files(profile.connections + SPARE_FILES)
    started, load_before = time.monotonic(), os.getloadavg()[0]
    contenders = _contenders(options.ours_only, options.peer_only)
    try:
        _measure(contenders, profile, options)
    except KeyboardInterrupt:
        console.print("interrupted; what was measured so far:")
    found = report.rows(
        [sample for each in contenders if each.ours for sample in each.samples],
        [sample for each in contenders if not each.ours for sample in each.samples],
    )
    report.show(found, console)
    note = report.note("quick" if options.quick else "default", started, load_before)
    path = report.write(found, note, options.out)
    console.print(f"wrote {path} in {time.monotonic() - started:.0f} s")
    return int(any(each.failures for each in contenders))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: rough numbers")
    parser.add_argument(
        "--case", action="append", metavar="NAME", help="this case only; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--rounds", type=int, help="rounds instead of the profile's")
    parser.add_argument("--ours-only", action="store_true", help="ChordMQ alone, no ratios")
    parser.add_argument("--peer-only", action="store_true", help="Apache Kafka alone")
    parser.add_argument("--out", type=Path, default=report.OUT, help="folder of latest.json")
    options = parser.parse_args()
    known = {case.name for case in CASES} | set(ALONE)
    if unknown := set(options.case or ()) - known:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; --list names them")
    return options


def _contenders(ours_only: bool, peer_only: bool) -> list[Contender]:
    found = [] if peer_only else [Contender("ChordMQ", True, start_chordmq)]
    if not ours_only:
        kafka_libs()
        found.append(Contender(report.PEER_NAME, False, start_kafka))
    return found


def _measure(contenders: list[Contender], profile: Profile, options: argparse.Namespace) -> None:
    """Run the rounds; the broker that went first goes last in the next one."""
    wanted = set(options.case or [*(case.name for case in CASES), *ALONE])
    cases = [case for case in CASES if case.name in wanted]
    if wanted - {"start", "idle", *ALONE}:
        cases = [case for case in CASES if case.name in wanted | {"warm_up"}]
    rounds = options.rounds or profile.rounds
    WORK.mkdir(parents=True, exist_ok=True)
    with page_cache(WORK / "page-cache") as cache:
        for number in range(rounds if cases else 0):
            for contender in contenders if number % 2 == 0 else contenders[::-1]:
                console.rule(f"round {number + 1} of {rounds}: {contender.name}")
                _run_session(contender, cases, profile, cache)
        for name in ALONE:
            for contender in contenders if name in wanted else ():
                console.rule(f"{name}: {contender.name}")
                cache.fill()
                _run_alone(contender, name, profile)


def _run_session(
    contender: Contender, cases: list[Case], profile: Profile, cache: PageCache
) -> None:
    with _directory() as directory:
        console.print("  waiting for the disk, and filling memory that nobody uses")
        settle(directory)  # or one would start while the disk works on what the other has left
        cache.fill()
        try:
            peer = contender.start(directory, ())
        except FAILURES as failure:
            _report_failure(contender, "start", failure)
            return
        session = Session(peer, contender.ours, profile)
        try:
            for case in cases:
                cache.fill()  # with what the machine has taken out of it meanwhile
                if not _run_case(contender, case, session):
                    break
        finally:
            peer.stop()


def _run_case(contender: Contender, case: Case, session: Session) -> bool:
    """Run one case; return whether the broker is still there for the next."""
    started = time.monotonic()
    try:
        with uncollected():
            samples = case.run(session)
    except FAILURES as failure:
        _report_failure(contender, case.name, failure)
    else:
        contender.samples += samples
        _report_progress(case.name, samples, time.monotonic() - started)
    return session.peer.process.poll() is None


def _run_alone(contender: Contender, name: str, profile: Profile) -> None:
    """Run a case that starts its own brokers."""
    started = time.monotonic()
    with _directory() as directory:
        try:
            with uncollected():
                samples = ALONE[name](contender, directory, profile)
        except FAILURES as failure:
            _report_failure(contender, name, failure)
        else:
            contender.samples += samples
            _report_progress(name, samples, time.monotonic() - started)


@contextmanager
def _directory() -> Iterator[Path]:
    """Give a broker an empty directory on the real disk, and remove it afterwards."""
    WORK.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=WORK))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _report_progress(name: str, samples: list[Sample], taken_s: float) -> None:
    shown = ", ".join(f"{report.number(sample.value)} {sample.unit}" for sample in samples)
    console.print(f"  {name:30} {taken_s:5.1f} s  {shown}")


def _report_failure(contender: Contender, name: str, failure: Exception) -> None:
    contender.failures += 1
    console.print(
        f"  [red]{name} failed[/red] on {contender.name}: {type(failure).__name__}:", end=" "
    )
    console.print(str(failure), markup=False)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""Logs that a journal flushes."""

from chordmq.storage.journal import Journal
from chordmq.storage.log import Log
from tests.storage.logs import Disk, append, batch, crash, everything

HALF_BYTES = 4096


def known_log(d: Disk, name: str = "t-0") -> Log:
    """Return a log with one record in its own files, of which the catalogue knows."""
    log = d.log(name=name)
    append(log, batch(b"in the files"))
    log.flush()
    d.catalogue.journal_rounds()  # waits for all that was told to the catalogue before
    return log


def journal_of(d: Disk) -> Journal:
    assert d.journal is not None
    return d.journal


def write_round(d: Disk, *logs: Log) -> int:
    """Have one round of the journal flush the logs, and return its number."""
    shares = [share for log in logs if (share := log.begin_share()) is not None]
    begun = journal_of(d).begin(shares)
    assert begun is not None
    begun.write()
    for log, share in zip(logs, shares, strict=True):
        log.finish_share(share, begun.number)
    return begun.number


def append_to_journal(d: Disk, log: Log, value: bytes) -> None:
    """Append a record that is flushed to the journal, and not to the log's own files."""
    append(log, batch(value))
    write_round(d, log)
    assert log.flushed_offset == log.end_offset


def lose_tail(log: Log, garbage: bytes = b"") -> None:
    """Crash, and leave of the log's file what `known_log` has flushed, as a power cut may."""
    path = log.segments[-1].path
    crash(log)
    first = len(batch(b"in the files"))
    path.write_bytes(path.read_bytes()[:first] + garbage)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in everything(log)]

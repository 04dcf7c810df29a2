"""Group commit: one flush serves every write that arrived before it began, of many logs if small.

A flush goes to the files of its log, or together with those of other logs to the journal, which
is one sync of the disk for all of them. What only the journal has is brought to the logs' files
when it turns from one of its two files to the other, one log at a time.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Protocol

from chordmq.broker.threads import Threads
from chordmq.errors import ChordMQError, StorageFailed
from chordmq.logs import get_logger
from chordmq.storage.flush import Flush, Share
from chordmq.storage.journal import Journal, Round
from chordmq.storage.log import Log

log = get_logger(__name__)

THREADS = 4
"""For flushes to the files of logs; the journal, and what was left to it, have one each."""
RETRY_S = 0.1
EXIT_STORAGE_FAILED = 74
SMALL_BYTES = 64 << 10
"""Up to which a flush goes to the journal: what is larger takes longer to write than to sync."""
ROUND_BYTES_MAX = 1 << 20
FOLLOWED_MIN = 16
"""How many flushes must have followed each other before the journal is made, which no node needs
at once."""
FOLLOWS_S = 0.1
"""How soon a flush comes that follows another."""


def exit_at_once(error: BaseException) -> None:
    """End the process: after a failed flush nobody knows what is on the disk.

    The kernel may report the next flush as done although the data of the failed one is gone, so
    flushing again would acknowledge what is lost. Recovery at the next start reads the truth.
    """
    log.critical("flush failed, the node stops so that nothing is acknowledged", error=str(error))
    os._exit(EXIT_STORAGE_FAILED)


class Flushable(Protocol):
    """A partition, as the flusher sees it."""

    log: Log

    def flushed(self) -> None:
        """Take note that the log's flushed offset has moved."""
        ...


Work = list[tuple[Flushable, Flush]]


class Half:
    """Whose flushes one of the journal's two files has, and the last round in it."""

    def __init__(self) -> None:
        self.members: dict[Flushable, None] = {}
        self.last_round = 0

    def owing(self) -> list[Flushable]:
        """Return whose own files may not have what is here."""
        return [one for one in self.members if one.log.owes(self.last_round)]


class Flusher:
    """Runs the flushes of all partitions on a few threads; the event loop never waits for one."""

    def __init__(self, failed: Callable[[BaseException], None] = exit_at_once) -> None:
        self._threads = Threads(THREADS + 2, "flush")
        self._failed = failed
        self._waiting: dict[Flushable, None] = {}
        self._in_files: set[Flushable] = set()
        """Which are being flushed to their own files."""
        self._in_round: set[Flushable] = set()
        """Which have something in the round that is being written."""
        self._ends: dict[Flushable, asyncio.Future[None]] = {}
        self._free_threads = THREADS
        self._scheduled = False
        self._followed = 0
        self._last_s = -inf
        """When the last flush began that was small enough for the journal."""
        self._half, self._other_half = Half(), Half()
        self._owing: dict[Flushable, None] = {}
        """What the journal turns away from, until the logs' own files have it."""
        self._settling: Flushable | None = None
        """Which brings to its own files what the journal has of it, and goes on there meanwhile."""
        self._retry: asyncio.TimerHandle | None = None
        self.flushes = 0
        self.rounds = 0

    def request(self, partition: Flushable) -> None:
        """Have everything written so far to the partition flushed soon."""
        if partition in self._waiting:
            return
        self._waiting[partition] = None
        if self._scheduled or not self._is_free(partition):
            return
        may_begin = self._free_threads and partition is not self._settling
        if may_begin and (partition.log.flush_size() or 0) > SMALL_BYTES:
            self._flush_alone([partition])  # it has nothing to share with others
            return
        self._scheduled = True
        # All partitions written in this turn of the loop share the next round.
        asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        ready = [p for p in self._waiting if self._is_free(p)]
        if ready:
            left = self._begin_round(ready)
            self._flush_alone([p for p in left if p is not self._settling])
        if self._owing and self._settling is None:
            self._settle()

    def _try_again(self) -> None:
        self._retry = None
        self._start()

    def _is_free(self, partition: Flushable) -> bool:
        """Return whether a flush can begin; the journal takes what comes behind a settling."""
        if partition in self._in_round:
            return False
        return partition not in self._in_files or partition is self._settling

    def _flush_alone(self, ready: list[Flushable]) -> None:
        if not ready or not self._free_threads:
            return
        share = -(-len(ready) // self._free_threads)
        for first in range(0, len(ready), share):
            work = self._begin(ready[first : first + share])
            if work:
                self._free_threads -= 1
                self._sync(work, self._free_thread)

    def _begin_round(self, ready: list[Flushable]) -> list[Flushable]:
        """Begin a round of the journal, if one can be; return what is not for the journal."""
        journal = ready[0].log.journal
        small = {} if journal is None else {one: None for one in ready if self._is_small(one)}
        if journal is None or not small:
            return ready
        if not journal.is_open:
            self._count(journal)
            return ready
        if not self._in_round and not self._write_round(journal, small):
            return ready
        return [one for one in ready if one not in small]

    def _count(self, journal: Journal) -> None:
        """Have the journal opened when flushes have followed each other."""
        last_s, self._last_s = self._last_s, asyncio.get_running_loop().time()
        self._followed += self._last_s - last_s < FOLLOWS_S
        if self._followed == FOLLOWED_MIN:
            self._followed += 1
            self._threads.submit(partial(_open, journal))

    def _write_round(self, journal: Journal, small: Iterable[Flushable]) -> bool:
        """Begin a round with as many as it may have; return whether the journal has room for it."""
        work: list[tuple[Flushable, Share]] = []
        size = 0
        for partition in small:
            self._waiting.pop(partition)
            try:
                share = partition.log.begin_share()
            except ChordMQError as error:
                self._failed(error)
                continue
            if share is not None:
                work.append((partition, share))
                size += len(share.data)
            if size > ROUND_BYTES_MAX:
                break
        if not work:
            return True
        shares = [share for _, share in work]
        begun = journal.begin(shares)
        if begun is None and self._turn(journal):
            begun = journal.begin(shares)
        if begun is None:
            for partition, share in work:
                partition.log.finish_share(share, 0)
                self._waiting[partition] = None
            return False
        self.rounds += 1
        self.flushes += len(work)
        self._in_round.update(partition for partition, _ in work)
        self._submit(begun.write, partial(self._end_round, journal, begun, work))
        return True

    def _is_small(self, partition: Flushable) -> bool:
        size = partition.log.flush_size()
        return size is not None and size <= SMALL_BYTES

    def _turn(self, journal: Journal) -> bool:
        """Go on in the journal's other file, if the logs' own files have all that it has."""
        if self._other_half.owing():
            return False
        self._owing.update(dict.fromkeys(self._half.owing()))
        self._half, self._other_half = Half(), self._half
        journal.turn()
        return True

    def _end_round(
        self,
        journal: Journal,
        begun: Round,
        work: list[tuple[Flushable, Share]],
        error: BaseException | None,
    ) -> None:
        half = self._half
        if error is None:
            half.last_round = begun.number
            half.members.update(dict.fromkeys(partition for partition, _ in work))
        else:
            log.error("journal is given up, logs are flushed one by one", error=str(error))
            journal.is_open = False
            self._owing.update(dict.fromkeys(half.owing()))
        for partition, share in work:
            self._ended(partition, self._in_round)
            partition.log.finish_share(share, 0 if error is not None else begun.number)
            partition.flushed()
        self._start()

    def _settle(self) -> None:
        """Bring what only the journal has to the files of one log."""
        for partition in [one for one in self._owing if one not in self._in_files]:
            del self._owing[partition]
            work = self._begin([partition], is_whole=True)
            if work:
                self._settling = partition
                self._sync(work, self._end_settling)
                return

    def _end_settling(self) -> None:
        self._settling = None

    def _free_thread(self) -> None:
        self._free_threads += 1

    def _begin(self, partitions: Iterable[Flushable], *, is_whole: bool = False) -> Work:
        """Return what is to be flushed; without a free descriptor it has to wait."""
        work: Work = []
        for partition in partitions:
            if not is_whole:  # else the journal may be quicker
                self._waiting.pop(partition, None)
            try:
                flush = partition.log.begin_flush(is_whole=is_whole)
            except OSError as error:
                log.error("flush put off", log=partition.log.name, error=str(error))
                self._waiting[partition] = None
                if is_whole:
                    self._owing[partition] = None
                if self._retry is None:
                    self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
                continue
            if flush is not None:
                self._in_files.add(partition)
                work.append((partition, flush))
        self.flushes += len(work)
        return work

    def _sync(self, work: Work, ended: Callable[[], None]) -> None:
        """Have logs flushed to their own files, on a thread of the pool."""

        def sync() -> None:
            for _, flush in work:
                flush.sync()

        self._submit(sync, partial(self._finish, work, ended))

    def _submit(
        self, work: Callable[[], None], ended: Callable[[BaseException | None], None]
    ) -> None:
        """Have a thread of the pool do work, and the loop told how that ended."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - whatever it was, nobody must wait for ever
                error = failure
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(ended, error)

        self._threads.submit(run)

    def _finish(self, work: Work, ended: Callable[[], None], error: BaseException | None) -> None:
        ended()
        for partition, flush in work:
            self._ended(partition, self._in_files)
            if error is None:
                partition.log.finish_flush(flush)
                partition.flushed()
        if error is not None:
            self._failed(error)
        self._start()

    def _ended(self, partition: Flushable, among: set[Flushable]) -> None:
        among.discard(partition)
        if self._is_idle(partition) and (waiting := self._ends.pop(partition, None)) is not None:
            waiting.set_result(None)

    def _is_idle(self, partition: Flushable) -> bool:
        return partition not in self._in_files and partition not in self._in_round

    async def finished(self, partition: Flushable) -> None:
        """Wait until no flush of the partition is under way; begin none for it any more."""
        self._forget(partition)
        while not self._is_idle(partition):  # a turn of the journal may have begun to settle it
            if partition not in self._ends:
                self._ends[partition] = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ends[partition])
            self._forget(partition)

    def _forget(self, partition: Flushable) -> None:
        self._waiting.pop(partition, None)
        self._owing.pop(partition, None)

    @contextmanager
    def watching(self, partition: Flushable) -> Iterator[None]:
        """End the node if a flush fails that the log makes itself: it must not be repeated."""
        try:
            yield
        except StorageFailed as error:
            if partition.log.fault:
                self._failed(error)
            raise

    def close(self) -> None:
        """Wait for the flushes under way; what they report is no longer handled."""
        self._threads.close()


def _open(journal: Journal) -> None:
    try:
        journal.open()
    except ChordMQError as error:
        log.warning("logs are flushed one by one, without a journal", error=str(error))

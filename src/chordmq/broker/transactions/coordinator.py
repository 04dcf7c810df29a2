"""The transaction coordinator: gives the pure machines a clock, a log and partitions to mark."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import field
from typing import Protocol, TypeVar

from chordmq.broker.deadlines import Deadlines
from chordmq.broker.endurance import to_the_end
from chordmq.broker.groups.log import TOPIC as GROUPS
from chordmq.broker.groups.offsets import Place
from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.broker.producers import Incarnation
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.transactions.machine import (
    NO_ID,
    PREPARED,
    State,
    Transaction,
    TransactionSnapshot,
    first_snapshot,
)
from chordmq.broker.transactions.records import TransactionRecord, read, write
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    ConcurrentTransactions,
    CoordinatorFenced,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotCoordinator,
    ProducerIdMismatch,
    StaleProducerEpoch,
    TransactionalIdNotFound,
    UnknownTopic,
)
from chordmq.logs import get_logger
from chordmq.records.marker import Marker

log = get_logger(__name__)

TOPIC = "__transaction_state"
TICK_S = 0.5
EXPIRY_INTERVAL_S = 3600.0
RETRY_S = 0.2
ABORT_RETRY_MS = 1000
COMPLETION_WAIT_S = 1.0
"""How long a request waits for the transaction before it, until it is told to try again."""
NAME_BYTES_MAX = 2**15 - 1

Result = TypeVar("Result")


def _partitions(settings: BrokerSettings) -> int:
    return settings.transaction_state_log_num_partitions


TRANSACTION_TOPIC: InternalTopic[TransactionRecord] = InternalTopic(
    name=TOPIC,
    settings={
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(100 * 2**20),
    },
    partitions=_partitions,
    write=write,
    read=read,
)


class TransactionHost(Host, Protocol):
    """What transactions need of the broker they belong to."""

    async def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        ...


class GroupOffsets(Protocol):
    """What transactions need of the groups whose offsets they move."""

    async def end_transaction(self, log_partition: int, marker: Marker) -> None:
        """Let the offsets of a transaction count, or not, in one partition of the log."""
        ...


class Delegate(Protocol):
    """Asks whoever looks after an id, or leads a partition."""

    async def add(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Let partitions join a producer's transaction."""
        ...

    async def check(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Refuse unless the partitions are part of the producer's open transaction."""
        ...

    async def mark(self, place: Place, marker: Marker) -> None:
        """End a transaction in a partition."""
        ...


@dataclass(slots=True, eq=False)
class Entry:
    """One transactional id: its machine, whose turn it is, and whether its markers are written."""

    name: str
    transaction: Transaction | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    settled: asyncio.Event = field(default_factory=asyncio.Event)


Work = Callable[[Entry], Coroutine[None, None, Result]]


class TransactionCoordinator:
    """All transactional ids of the node.

    What is decided is logged before anybody hears of it. A decided transaction is then carried out:
    a marker in each of its partitions, and a last entry in the log. A crash in between repeats the
    markers, which does no harm.
    """

    def __init__(self, host: TransactionHost, groups: GroupOffsets) -> None:
        self._host = host
        self._groups = groups
        self._log = InternalLog(host, TRANSACTION_TOPIC)
        self._entries: dict[str, Entry] = {}
        self._deadlines = Deadlines()
        self._tasks: asyncio.TaskGroup | None = None
        self.delegate: Delegate | None = None
        """Asks other nodes, in a cluster; None where this node is alone."""
        self.loaded = asyncio.Event()
        """Set once the log is read; until then clients are asked to try again."""

    async def run(self) -> None:
        """Read the log, finish what was decided, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._log.open(tasks)
            tasks.create_task(self._log.serve(self._load, self._unload, self._ready))
            try:
                tasks.create_task(self._expire())
                while True:
                    await asyncio.sleep(TICK_S)
                    await self.tick()
            finally:
                self.loaded.clear()
                self._log.close()
                self._tasks = None

    async def init(
        self, transactional_id: str, timeout_ms: int, expected: Incarnation | None = None
    ) -> Incarnation:
        """Give a producer its id and a new epoch; an open transaction of the one before is aborted.

        `expected` is what a producer that lives already believes to be.
        """
        if not 0 < len(transactional_id.encode()) <= NAME_BYTES_MAX:
            raise InvalidRequest("the transactional id is empty or too long")
        timeout_max_ms = self._host.settings.transaction_max_timeout_ms
        if not 0 < timeout_ms <= timeout_max_ms:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms, at most {timeout_max_ms}")

        async def work(entry: Entry) -> Incarnation:
            transaction = entry.transaction
            if transaction is None:
                new_id = await self._host.new_producer_id()
                new = first_snapshot(transactional_id, new_id, timeout_ms, self._now_ms())
                await self._write(entry, new)
                return new.producer
            if transaction.state is State.ONGOING:
                transaction.check_expected(expected)
                await self._write(entry, transaction.fence(self._now_ms()))
                await self._settled(entry)
                expected_now = None  # the fence has moved the epoch on
            else:
                expected_now = expected
            new_id = NO_ID
            if transaction.is_exhausted:
                new_id = await self._host.new_producer_id()
            changed = transaction.init(expected_now, timeout_ms, new_id, self._now_ms())
            if changed is not None:
                await self._write(entry, changed)
            return transaction.current.producer

        return await self._in_turn(self._entry(transactional_id, is_new=True), work)

    async def add(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Let partitions join a producer's transaction; return once that is safe."""

        async def work(entry: Entry) -> None:
            assert entry.transaction is not None
            changed = entry.transaction.add(producer, places, self._now_ms())
            if changed is not None:
                await self._write(entry, changed)

        await self._in_turn(self._entry(transactional_id), work)

    def check_member(self, transactional_id: str, producer: Incarnation, place: Place) -> None:
        """Refuse unless the partition is part of the producer's open transaction."""
        transaction = self._entry(transactional_id).transaction
        assert transaction is not None
        transaction.check_member(producer, place)

    async def enlist(
        self,
        transactional_id: str,
        producer: Incarnation,
        places: Collection[Place],
        *,
        is_check: bool = False,
    ) -> None:
        """Let partitions join, or check that they have, wherever the id is looked after."""
        if self.delegate is not None:
            ask = self.delegate.check if is_check else self.delegate.add
            await ask(transactional_id, producer, places)
        elif is_check:
            for place in places:
                self.check_member(transactional_id, producer, place)
        else:
            await self.add(transactional_id, producer, places)

    async def end(
        self,
        transactional_id: str,
        producer: Incarnation,
        *,
        is_commit: bool,
        has_epoch_per_transaction: bool = False,
    ) -> Incarnation:
        """Commit or abort; return, once that is decided for good, the producer of the next one."""

        async def work(entry: Entry) -> Incarnation:
            transaction = entry.transaction
            assert transaction is not None
            new_id = None
            if has_epoch_per_transaction:
                new_id = await self._host.new_producer_id() if transaction.is_exhausted else NO_ID
            changed = transaction.end(
                producer, is_commit=is_commit, new_id=new_id, now_ms=self._now_ms()
            )
            if changed is None:
                return transaction.current.producer
            await self._write(entry, changed)
            return changed.producer

        return await self._in_turn(self._entry(transactional_id), work)

    def find(self, transactional_id: str) -> TransactionSnapshot:
        """Return what is known of an id, or raise TransactionalIdNotFound."""
        self._check_loaded()
        self._log.check(transactional_id)
        entry = self._entries.get(transactional_id)
        if entry is None or entry.transaction is None:
            raise TransactionalIdNotFound(f"no transactional id {transactional_id}")
        return entry.transaction.current

    def snapshots(self) -> Iterator[TransactionSnapshot]:
        """Yield what is known of every id."""
        self._check_loaded()
        for entry in self._entries.values():
            if entry.transaction is not None:
                yield entry.transaction.current

    async def tick(self) -> None:
        """Abort the transactions whose time is up."""
        async with asyncio.TaskGroup() as tasks:
            for name in self._deadlines.due(self._now_ms()):
                if name in self._entries:
                    tasks.create_task(self._abort_in_turn(self._entries[name]))

    async def _abort_in_turn(self, entry: Entry) -> None:
        try:
            await self._in_turn(entry, self._abort_late)
        except ChordMQError as error:  # tried again soon: nobody else would end it
            log.warning("transaction not aborted yet", id=entry.name, error=str(error))
            self._deadlines.set(entry.name, self._now_ms() + ABORT_RETRY_MS)

    async def expire_ids(self) -> None:
        """Forget the ids that nobody has used for long."""
        before_ms = self._now_ms() - self._host.settings.transactional_id_expiration_ms
        for entry in list(self._entries.values()):
            transaction = entry.transaction
            if transaction is not None and transaction.may_expire(before_ms):
                try:
                    await self._in_turn(entry, self._forget)
                except ChordMQError as error:
                    log.warning("transactional id stays", id=entry.name, error=str(error))

    async def _abort_late(self, entry: Entry) -> None:
        transaction = entry.transaction
        now_ms = self._now_ms()
        deadline_ms = None if transaction is None else transaction.deadline_ms
        if transaction is not None and deadline_ms is not None and deadline_ms <= now_ms:
            log.info("transaction took too long and is aborted", id=entry.name)
            await self._write(entry, transaction.fence(now_ms))

    async def _forget(self, entry: Entry) -> None:
        before_ms = self._now_ms() - self._host.settings.transactional_id_expiration_ms
        if entry.transaction is not None and entry.transaction.may_expire(before_ms):
            await self._write(entry, None)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_INTERVAL_S)
            await self.expire_ids()

    def look_again(self) -> None:
        """Take note that partitions of the log may have changed their leader."""
        self._log.look_again()

    async def prepare(self) -> None:
        """Have the log, so that its leaders can be named."""
        await self._log.ensure()

    def place_of(self, transactional_id: str) -> Place:
        """Return the partition that keeps an id; its leader looks after it."""
        return TRANSACTION_TOPIC.name, self._log.partition_of(transactional_id)

    async def _load(self, log_partition: int) -> None:
        """Read what one partition keeps, and go on with what is decided there."""
        found: dict[str, Entry] = {}
        async for batch in self._log.replay(log_partition):
            for record in batch.entries:
                if record.snapshot is None:
                    found.pop(record.transactional_id, None)
                else:
                    transaction = Transaction(record.snapshot)
                    name = record.transactional_id
                    found[name] = Entry(name, transaction)
        self._entries.update(found)
        for entry in found.values():
            self._follow(entry)

    def _unload(self, log_partition: int) -> None:
        """Forget what another node looks after now; it carries on with what was decided."""
        for name in [n for n in self._entries if self._log.partition_of(n) == log_partition]:
            self._deadlines.discard(name)
            del self._entries[name]

    def _ready(self) -> None:
        if not self.loaded.is_set():
            self.loaded.set()
            log.info("transactions loaded", ids=len(self._entries))

    def _check_loaded(self) -> None:
        if not self.loaded.is_set():
            raise CoordinatorLoading("transactions are being read from the log")

    def _entry(self, transactional_id: str, *, is_new: bool = False) -> Entry:
        self._check_loaded()
        self._log.check(transactional_id)
        entry = self._entries.get(transactional_id)
        if entry is None and is_new:
            entry = self._entries[transactional_id] = Entry(transactional_id)
            entry.settled.set()
        if entry is None or (entry.transaction is None and not is_new):
            raise ProducerIdMismatch(f"no producer has the transactional id {transactional_id!r}")
        return entry

    async def _in_turn(self, entry: Entry, work: "Work[Result]") -> Result:
        """Do one thing at a time for an id, and to its end even if the client goes away."""

        async def in_turn() -> Result:
            async with entry.turn:
                await self._settled(entry)
                return await work(entry)

        return await to_the_end(in_turn())

    async def _settled(self, entry: Entry) -> None:
        """Wait until the last transaction is complete, but not for long."""
        try:
            async with asyncio.timeout(COMPLETION_WAIT_S):
                await entry.settled.wait()
        except TimeoutError:
            raise ConcurrentTransactions(
                f"the last transaction of {entry.name} is being completed"
            ) from None

    async def _write(self, entry: Entry, snapshot: TransactionSnapshot | None) -> None:
        """Log what was decided, and return once it is safe and applied."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if error is None:
                self._apply(entry, snapshot)
            if written.done():
                return
            if error is None:
                written.set_result(None)
            elif isinstance(error, NotCoordinator):
                written.set_exception(error)
            else:
                written.set_exception(CoordinatorNotAvailable(str(error)))

        self._log.append(entry.name, [TransactionRecord(entry.name, snapshot)], done)
        await written

    def _apply(self, entry: Entry, snapshot: TransactionSnapshot | None) -> None:
        if snapshot is None:
            entry.transaction = None
            self._entries.pop(entry.name, None)
        elif entry.transaction is None:
            entry.transaction = Transaction(snapshot)
            self._entries[entry.name] = entry
        else:
            entry.transaction.replay(snapshot)
        self._follow(entry)

    def _follow(self, entry: Entry) -> None:
        """Note the deadline of what is open, and carry out what is decided."""
        transaction = entry.transaction
        deadline_ms = None if transaction is None else transaction.deadline_ms
        if deadline_ms is None:
            self._deadlines.discard(entry.name)
        else:
            self._deadlines.set(entry.name, deadline_ms)
        if transaction is None or transaction.state not in PREPARED:
            entry.settled.set()
        elif self._tasks is not None:
            entry.settled.clear()
            self._tasks.create_task(self._complete(entry, transaction))

    async def _complete(self, entry: Entry, transaction: Transaction) -> None:
        """Write the markers, then say in the log that all are written."""
        decided = transaction.current
        marker = Marker(decided.producer_id, decided.epoch, decided.state is State.PREPARE_COMMIT)
        async with asyncio.TaskGroup() as tasks:
            for place in decided.partitions:
                tasks.create_task(self._mark(entry, place, marker))
        while self._looks_after(entry):
            try:
                await self._write(entry, transaction.complete(self._now_ms()))
                return
            except NotCoordinator:
                return
            except CoordinatorNotAvailable as error:
                log.warning("completion is not logged yet", id=entry.name, error=str(error))
                await asyncio.sleep(RETRY_S)

    def _looks_after(self, entry: Entry) -> bool:
        return self._tasks is not None and self._entries.get(entry.name) is entry

    async def _mark(self, entry: Entry, place: Place, marker: Marker) -> None:
        """Write a marker; a disk that is full or a node that stops only delays it."""
        while self._looks_after(entry):
            try:
                if self.delegate is not None:
                    await self.delegate.mark(place, marker)
                else:
                    await self.write_marker(place, marker)
                return
            except (UnknownTopic, StaleProducerEpoch, CoordinatorFenced):
                return  # deleted, or a later marker is there already
            except ChordMQError as error:
                log.warning("marker is not written yet", topic=place[0], error=str(error))
                await asyncio.sleep(RETRY_S)

    async def write_marker(self, place: Place, marker: Marker) -> None:
        """End a transaction in one partition; return once that is committed."""
        if place[0] == GROUPS:
            await self._groups.end_transaction(place[1], marker)
        else:
            await self._host.append_marker(*place, marker)

    def _now_ms(self) -> int:
        return self._host.clock.now_ms()

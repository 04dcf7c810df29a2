"""Runs one source: reads changes, writes them with their position, and begins again on failure.

Whatever fails, everything is closed, and the next attempt goes on after the last position that was
stored; so nothing depends on what was in memory.
"""

import asyncio
import random
from collections.abc import Mapping
from contextlib import aclosing

from chordmq.cdc.backlog import Backlog, Step
from chordmq.cdc.change import Position
from chordmq.cdc.errors import CdcError, PositionLost, SourceUnavailable
from chordmq.cdc.measures import Measures
from chordmq.cdc.rendering import CannotTell, Rendering
from chordmq.cdc.settings import BrokerAddress, Source
from chordmq.cdc.stream import Stream, opener
from chordmq.cdc.writer import TRANSACTION_TIMEOUT_MS, Writer, transactional_id
from chordmq.client.admin import Admin
from chordmq.client.backoff import Backoff
from chordmq.client.codes import Code
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, ClientError
from chordmq.client.security import Security
from chordmq.client.transaction import Transaction
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger

log = get_logger(__name__)

REST_FIRST_S, REST_MOST_S = 0.5, 30.0
LAG_EVERY_S = 5.0
TRANSIENT = (SourceUnavailable, ClientError, OSError, TimeoutError)
"""What may go well the next time."""
FENCED = (Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED)


class Replaced(CdcError):
    """Another process runs the same source, and has shut this one out."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the output goes, and as whom."""

    bootstrap: str
    connection: ConnectionSettings


def broker_of(address: BrokerAddress) -> Broker:
    """Return how to reach the broker of a configuration."""
    security = Security(
        user=address.user,
        password=address.password,
        token=address.token,
        mechanism=address.mechanism,
        tls=address.tls,
        tls_ca=address.tls_ca,
        tls_certificate=address.tls_certificate,
        tls_key=address.tls_key,
    )
    return Broker(address.bootstrap, ConnectionSettings(security=security))


class Runner:
    """Follows one database until cancelled."""

    def __init__(self, source: Source, broker: Broker, clock: Clock) -> None:
        self._source = source
        self._broker = broker
        self._clock = clock
        self._forgets = False
        self._rendering = Rendering(source)
        self.measures = Measures(source.name, clock)

    async def run(self) -> None:
        """Run for ever; raise only what somebody has to mend first."""
        rests = Backoff(random.Random(), REST_FIRST_S, REST_MOST_S)  # noqa: S311 (jitter)
        while True:
            steps = self.measures.steps
            try:
                await self._follow()
            except (ExceptionGroup, CdcError, CannotTell, *TRANSIENT) as error:
                self._consider(_first(error))
            if self.measures.steps > steps:
                rests.reset()
            await asyncio.sleep(rests.next_s())

    def _consider(self, failure: Exception) -> None:
        """Decide whether to begin again; raise what somebody has to mend first."""
        name, wanted = self._source.name, self._source.snapshot
        goes_on = isinstance(failure, TRANSIENT)
        if isinstance(failure, BrokerRefused) and failure.code in FENCED:
            goes_on = False
            failure = Replaced(f"another process runs source {name} and has shut this one out")
        elif isinstance(failure, PositionLost) and wanted == "when_needed":
            goes_on = self._forgets = True
            log.warning("takes a new snapshot", source=name, reason=str(failure))
        elif isinstance(failure, PositionLost):
            failure = PositionLost(
                f"{failure}; changes are lost, and `snapshot: {wanted}` forbids another snapshot. "
                "Set `snapshot: when_needed` to take one"
            )
        elif goes_on:
            log.warning("tries again", source=name, failure=f"{type(failure).__name__}: {failure}")
        self.measures.failed(str(failure), for_good=not goes_on)
        if not goes_on:
            raise failure from None

    async def _follow(self) -> None:
        source, clock = self._source, self._clock
        async with Admin(self._broker.bootstrap, self._broker.connection) as admin:
            transaction = Transaction(
                admin.cluster, transactional_id(source), timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            async with transaction:
                writer = Writer(source, admin, transaction, clock)
                position = await writer.prepare()
                if self._forgets:
                    position = None
                async with opener(source)(source, position, clock) as stream:
                    self._forgets = False
                    log.info("follows", source=source.name, position=position and position.at)
                    backlog = Backlog(source.pace)
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._read(stream, backlog))
                        tasks.create_task(self._write(stream, backlog, writer))
                        tasks.create_task(self._watch(stream))

    async def _read(self, stream: Stream, backlog: Backlog) -> None:
        """Render what the source tells; where there is no room, the source is not read."""
        clock, rendering = self._clock, self._rendering
        async with aclosing(stream.bursts()) as bursts:
            async for changes, position in bursts:
                if not changes and self._source.heartbeats:
                    records = rendering.heartbeat(clock.now_ms())
                else:
                    records = rendering.records(changes, clock.now_ms() * 1_000_000)
                await backlog.put(Step(records, position, len(changes), clock.monotonic_s()))
                self.measures.queued = backlog.records

    async def _write(self, stream: Stream, backlog: Backlog, writer: Writer) -> None:
        while True:
            steps = await backlog.take()
            records = [step.records for step in steps]
            position = steps[-1].position
            await writer.write(records, position)
            measures = self.measures
            measures.queued = backlog.records
            measures.spoiled = self._rendering.spoiled
            changes = sum(step.changes for step in steps)
            size = sum(one.size for one in records)
            measures.stored(position, changes, sum(map(len, records)), size)
            now_s = self._clock.monotonic_s()
            for step in steps:
                measures.write_s.observe(now_s - step.read_s)
            await stream.confirm(position)

    async def _watch(self, stream: Stream) -> None:
        while True:
            self.measures.lag = await self._lag(stream)
            await asyncio.sleep(LAG_EVERY_S)

    async def _lag(self, stream: Stream) -> Mapping[str, float]:
        try:
            return await stream.lag()
        except SourceUnavailable:
            return self.measures.lag  # the task that reads meets the same fault


def _first(failure: Exception) -> Exception:
    """Return the first failure of those that tasks ended with."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure


async def stored_position(source: Source, broker: Broker) -> Position | None:
    """Return how far a source is, whether or not it runs."""
    from chordmq.cdc import positions

    async with Admin(broker.bootstrap, broker.connection) as admin:
        try:
            return await positions.load(admin.cluster, source.positions)
        except BrokerRefused as error:
            if error.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

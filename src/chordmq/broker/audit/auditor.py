"""Writes the audit trail into the topic `__audit`, and signs its head, without holding anyone up.

Events wait in a bounded queue; all that came while the last append was under way go into the next
one. What does not fit into the queue is counted, and the count is written. In a cluster the leader
of the topic writes the one chain; the others hand it their events, and wait until it has them.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chordmq.broker.audit.chain import OK, Event, Head, Tip, digest_of, follow, head_event, sign
from chordmq.broker.audit.files import (
    DIRECTORY,
    HEAD_FILE,
    KEY_FILE,
    PUBLIC_FILE,
    TOPIC,
    load_key,
    read_head,
    write_head,
)
from chordmq.broker.audit.repeats import Repeats
from chordmq.broker.internal_log import Host, copies_of
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.auth import Attempt
from chordmq.broker.security.permissions import Changed
from chordmq.broker.security.principal import Principal
from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart, ChordMQError, InvalidSetting, TopicExists
from chordmq.logs import get_logger
from chordmq.records.batch import walk
from chordmq.records.record import NewRecord, read_records
from chordmq.storage.log import Log
from chordmq.storage.metadata.audit import HeadRow, HeadTable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = get_logger(__name__)

TOPIC_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "flush": "disk"}
QUEUE_MAX = 10_000
JOINED_MAX = 1_000
LINGER_S = 0.1
"""What comes within this time is written, and flushed, together."""
RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What is kept of who did what."""

    enabled: Literal["auto", "on", "off"] = "auto"
    """auto keeps an audit trail as soon as clients can be told apart."""
    publish_sample: float = 0.0
    """Share of published batches that is written down: 0 for none, 1 for all."""
    key_file: str = ""
    """The key that signs heads, made if it is not there; empty means audit/key.pem."""
    head_records: int = 1_000
    """Records after which the head is signed at the latest."""
    head_interval_s: float = 10.0
    """Time after which the head is signed at the latest."""

    def check(self) -> None:
        """Raise InvalidSetting for what cannot be."""
        if not 0 <= self.publish_sample <= 1:
            raise InvalidSetting("audit.publish_sample is a share between 0 and 1")
        if self.head_records < 1 or self.head_interval_s <= 0:
            raise InvalidSetting("audit.head_records and audit.head_interval_s are more than 0")


Relay = Callable[[Sequence[Event]], Awaitable[None]]


class Auditor:
    """Takes events from every front; off until it is opened."""

    def __init__(self, host: Host, directory: Path, table: HeadTable) -> None:
        self._host = host
        self._directory = directory / DIRECTORY
        self._table = table
        self._settings = AuditSettings(enabled="off")
        self._repeats = Repeats()
        self._queue: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._tip = Tip()
        self._tip_epoch = -1
        """The leader epoch in which the tip was read; in another one somebody else may write."""
        self._turn = asyncio.Lock()
        self.relay: Relay | None = None
        """Hands events to the leader of the topic; None where the node is alone."""
        self.name = "node"
        """Who does what the node does by itself."""
        self._unsigned = 0
        self._sign_at_s = 0.0
        self._is_stopping = False
        self._key: Ed25519PrivateKey | None = None
        self._chance = random.Random()  # noqa: S311 (a sample, not a secret)
        self.is_on = False
        self.sample = 0.0
        """Share of published batches that fronts should tell of."""
        self.written = 0
        self.dropped = 0
        self._dropped_untold = 0

    def record(self, *, who: str, host: str, act: str, obj: str, result: str = OK) -> None:
        """Take note of an event; never waits, and costs nothing while the trail is off."""
        if not self.is_on:
            return
        event = Event(who=who, host=host, act=act, obj=obj, result=result)
        told: Event | None = event
        if result != OK:
            told = self._repeats.admit(event, self._host.clock.monotonic_s())
        if told is not None:
            self._enqueue(told)
        self._wake.set()

    def record_own(self, act: str, obj: str, result: str = OK) -> None:
        """Take note of something that the node itself does."""
        if self.is_on:
            self._enqueue(self._own(act, obj, result))
            self._wake.set()

    def login(self, attempt: Attempt) -> None:
        """Take note of a login that succeeded or failed."""
        result = f"failed: {attempt.reason}" if attempt.reason else OK
        act = f"login {attempt.mechanism}"
        self.record(
            who=f"User:{attempt.user}", host=attempt.address, act=act, obj="", result=result
        )

    def denied(
        self, principal: Principal, host: str, operation: Operation, kind: Kind, name: str
    ) -> None:
        """Take note of a refusal."""
        who, obj = f"User:{principal.name}", f"{kind} {name}"
        self.record(who=who, host=host, act=str(operation), obj=obj, result="denied")

    def permission(self, change: Changed) -> None:
        """Take note of a change of ACLs, roles or quotas."""
        for act, texts in (("set", change.added), ("remove", change.removed)):
            for text in texts:
                self.record(who=change.by, host="", act=f"{change.what}.{act}", obj=text)

    def is_sampled(self) -> bool:
        """Say whether this publication is one to tell of."""
        return self._chance.random() < self.sample

    async def open(self, settings: AuditSettings) -> None:
        """Begin to write where the trail ended; `run` must run from now on."""
        self._settings = settings
        self.sample = settings.publish_sample
        self._key = await asyncio.to_thread(self._load_key)
        self._sign_at_s = self._host.clock.monotonic_s() + settings.head_interval_s
        self.is_on = True
        if self.relay is None:  # in a cluster others may have to start first
            await self._ensure_topic()
            self._begin_to_lead()

    async def run(self) -> None:
        """Write what is told until `close` has been called and all is written."""
        while not (self._is_stopping and not self._queue):
            await self._wait()
            for event in self._repeats.take(self._host.clock.monotonic_s()):
                self._enqueue(event)
            if not await self._write_some() and not self._is_stopping:
                await asyncio.sleep(RETRY_S)
            elif self._is_head_due():
                await self._sign()
        if self._unsigned:
            await self._sign()

    def close(self) -> None:
        """Take no more events; `run` ends once those that came are written and signed."""
        for event in self._repeats.take():
            self._enqueue(event)
        self.is_on = False
        self._is_stopping = True
        self._wake.set()

    def _enqueue(self, event: Event) -> None:
        if len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            self._dropped_untold += 1
        else:
            self._queue.append(event)

    async def _wait(self) -> None:
        """Wait for events, for the end of a second with repetitions, or for the next head."""
        now_s = self._host.clock.monotonic_s()
        ends = [self._repeats.wait_s(now_s)]
        if self._unsigned:
            ends.append(max(0.0, self._sign_at_s - now_s))
        known = [end for end in ends if end is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), min(known) if known else None)
            if not self._is_stopping:
                await asyncio.sleep(LINGER_S)
        self._wake.clear()

    async def _write_some(self) -> bool:
        """Append what waits as one batch; on failure all of it waits on."""
        count = min(len(self._queue), JOINED_MAX)
        if not count:
            return True
        events = [self._queue.popleft() for _ in range(count)]
        if self._dropped_untold:
            text = f"{self._dropped_untold} events"
            events.append(self._own("audit.dropped", text, "queue full"))
        try:
            await self._ensure_topic()
            if self._leads or self.relay is None:
                await self.write(events)
            else:
                await self.relay(events)
        except ChordMQError as error:
            log.error("the audit trail cannot be written", waiting=count, error=str(error))
            self._queue.extendleft(reversed(events[:count]))
            self._wake.set()
            if self._is_stopping:
                self._queue.clear()
            return False
        if len(events) > count:
            self._dropped_untold = 0
        if self._queue:
            self._wake.set()
        return True

    async def write(self, events: Sequence[Event]) -> None:
        """Append events of this node, or of another one, to the chain."""
        async with self._turn:
            await self._append(events, self._host.clock.now_ms())

    async def _append(self, events: Sequence[Event], now_ms: int) -> None:
        if self._tip_epoch != self._partition.leader_epoch:
            self._begin_to_lead()
        tip, records = self._tip, []
        for event in events:
            text, tip = follow(tip, event, now_ms)
            records.append(NewRecord(now_ms, bytes.fromhex(tip.digest), text))
        offset = await self._host.append_records(TOPIC, 0, records)
        if offset != self._tip.seq + 1:
            log.error("the audit trail has a gap", due=self._tip.seq + 1, offset=offset)
        self._tip = tip
        self._unsigned += len(events)
        self.written += len(events)

    @property
    def _partition(self) -> Partition:
        return self._host.topics.get(TOPIC).partitions[0]

    @property
    def _leads(self) -> bool:
        return self._partition.is_leader

    def _begin_to_lead(self) -> None:
        """Go on where the trail ends."""
        self._tip_epoch = self._partition.leader_epoch
        self._tip = self._last()
        self._compare_with_heads()

    def _is_head_due(self) -> bool:
        if not self._unsigned:
            self._sign_at_s = self._host.clock.monotonic_s() + self._settings.head_interval_s
            return False
        is_late = self._host.clock.monotonic_s() >= self._sign_at_s
        return is_late or self._unsigned >= self._settings.head_records

    async def _sign(self) -> None:
        """Sign the newest record; keep the head in the chain, the database and a file."""
        assert self._key is not None
        if not self._leads:
            self._unsigned = 0
            return
        try:
            async with self._turn:
                head = sign(self._tip, self._key, self._host.clock.now_ms())
                await self._append([head_event(head)], head.ts)
            await self._table.add(HeadRow(**asdict(head)))
            await asyncio.to_thread(write_head, self._directory / HEAD_FILE, head)
        except (ChordMQError, OSError) as error:
            log.error("the head of the audit trail cannot be kept", error=str(error))
        else:
            self._unsigned = 0
        self._sign_at_s = self._host.clock.monotonic_s() + self._settings.head_interval_s

    async def _ensure_topic(self) -> None:
        if self._host.topics.find(TOPIC) is None:
            with suppress(TopicExists):
                copies = copies_of(self._host.topics)
                await self._host.topics.create(TOPIC, 1, copies, TOPIC_SETTINGS)

    def _last(self) -> Tip:
        """Return the newest record in the log."""
        trail = self._trail()
        newest = trail.end_offset - 1
        return Tip(newest, _digest_at(trail, newest)) if newest >= trail.start_offset else Tip()

    def _compare_with_heads(self) -> None:
        """Say so, in the trail too, when a signed record is not there or is another one."""
        trail = self._trail()
        for head in self._kept_heads():
            if head.seq < trail.start_offset:
                continue  # retention may have taken it
            if head.seq >= trail.end_offset or _digest_at(trail, head.seq) != head.digest:
                log.error("the audit trail was changed while the node was down", record=head.seq)
                self.record_own("audit.check", f"record {head.seq}", "it is not the signed one")
                return

    def _kept_heads(self) -> list[Head]:
        heads = [Head(**asdict(row)) for row in self._table.heads()]
        try:
            return [*heads, read_head(self._directory / HEAD_FILE)]
        except FileNotFoundError:
            return heads
        except (OSError, ValueError) as error:
            log.error("the head of the audit trail cannot be read", error=str(error))
            return heads

    def _trail(self) -> Log:
        return self._partition.log

    def _own(self, act: str, obj: str, result: str) -> Event:
        return Event(who=self.name, host="", act=act, obj=obj, result=result)

    def _load_key(self) -> "Ed25519PrivateKey":
        self._directory.mkdir(mode=0o700, exist_ok=True)
        file = Path(self._settings.key_file or self._directory / KEY_FILE)
        try:
            return load_key(file, self._directory / PUBLIC_FILE)
        except (OSError, ValueError) as error:
            raise CannotStart(f"audit.key_file {file} cannot be used: {error}") from None


def _digest_at(trail: Log, offset: int) -> str:
    """Return the hash of one record in the log; of nothing if it cannot be read."""
    for data in trail.read(offset, 1):
        for position, header in walk(data):
            for record in read_records(data[position : position + header.size]):
                if record.offset == offset:
                    return digest_of(record.value or b"")
    return ""

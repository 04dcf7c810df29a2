"""Queues that are streams: a topic of the log, which each consumer reads from its own place."""

import asyncio
import re
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from chordmq.broker.queues.arguments import STREAM, Arguments, read_rules
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.places import topic_name
from chordmq.broker.queues.publishing import Publishing
from chordmq.broker.queues.queue import Keeper, Queue, QueueFacts
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.topic import Topic
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.logs import get_logger

log = get_logger(__name__)

COPIED_AT_ONCE = 1000
SEGMENT_MIN = 1024 * 1024
RETRY_S = 1.0
"""Until messages are copied again that could not be stored."""
UNITS_MS = {
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "D": 86_400_000,
    "M": 30 * 86_400_000,
    "Y": 365 * 86_400_000,
}
REFUSED = (
    "x-message-ttl", "x-expires", "x-max-length", "x-overflow", "x-dead-letter-exchange",
    "x-dead-letter-routing-key", "x-max-priority", "x-single-active-consumer", "x-queue-mode",
    "x-delivery-limit", "x-quorum-initial-group-size",
)  # fmt: skip
"""Arguments of other queues that make no sense where messages stay."""

_AGE = re.compile(r"(\d{1,9})([smhDMY])")


class StreamKeeper(Keeper, Protocol):
    """What a stream needs of those who keep it."""

    publishing: Publishing
    vhosts: dict[str, VirtualHost]

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that outlasts this turn."""
        ...


class Stream(Queue):
    """A queue whose messages stay.

    What is published to it lies in its topic at once. What exchanges lead to it lies in their
    topics, and is copied from there, in its order and at least once.
    """

    def __init__(self, facts: QueueFacts, keeper: StreamKeeper) -> None:
        super().__init__(facts, read_rules(facts.arguments), keeper)
        self.own_topic = topic_name(facts.vhost, facts.name)
        self._streams = keeper
        self._is_copying = False

    async def topic(self) -> Topic:
        """Return the topic; make it as the declaration says if it is not there."""
        vhost = self._streams.vhosts[self.facts.vhost]
        settings = topic_settings(self.facts.arguments)
        return await self._streams.publishing.ensure(vhost, vhost.topic(self.name), settings)

    def pump(self, *, may_wait: bool = True) -> None:
        """Copy what waits; consumers read the topic."""
        if self.ready and not self._is_copying and not self.is_deleted:
            self._is_copying = True
            self._streams.start(self._copy())

    def get(self) -> Entry | None:
        """Refuse: who reads a stream says from where, and takes nothing away."""
        raise InvalidRequest("messages cannot be got from a stream one by one: consume it")

    def purge(self) -> int:
        """Refuse: what is in a stream goes by age and size."""
        raise InvalidRequest("a stream cannot be purged: delete it, or let its messages age")

    async def _copy(self) -> None:
        try:
            while not self.is_deleted and (entries := self._next()):
                failed = await self._store(entries)
                if failed and not self.is_deleted:
                    self.requeue(failed)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._is_copying = False

    def _next(self) -> list[Entry]:
        found: list[Entry] = []
        while len(found) < COPIED_AT_ONCE and (entry := super().get()) is not None:
            found.append(entry)
        return found

    async def _store(self, entries: list[Entry]) -> list[Entry]:
        """Append messages to the topic, and return those that are not stored."""
        publishing, vhost = self._streams.publishing, self._streams.vhosts[self.facts.vhost]
        try:
            topic = await self.topic()
        except ChordMQError as error:
            log.warning("not copied", stream=self.name, error=str(error))
            return entries
        stored = [
            publishing.appends.append(
                publishing.partition_of(vhost, topic, entry.envelope),
                [publishing.record(vhost, entry.envelope, entry.body or b"")],
            )
            for entry in entries
        ]
        outcomes = await asyncio.gather(*stored, return_exceptions=True)
        failed = []
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, ChordMQError):
                failed.append(entry)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self.finish(entry)
        return failed


def new_queue(facts: QueueFacts, keeper: StreamKeeper) -> Queue:
    """Return what was declared: a queue, or a stream."""
    if facts.arguments.get("x-queue-type") != STREAM:
        return Queue(facts, read_rules(facts.arguments), keeper)
    where = f"queue '{facts.name}' in vhost '{facts.vhost}'"
    for name, is_so in (
        ("non-durable", not facts.durable),
        ("exclusive-owner", facts.exclusive),
        ("auto-delete", facts.auto_delete),
    ):
        if is_so:
            raise InvalidRequest(f"invalid property '{name}' for {where}")
    for name in REFUSED:
        if name in facts.arguments:
            raise InvalidRequest(f"invalid arg '{name}' for {where} of queue type {STREAM}")
    topic_settings(facts.arguments)
    return Stream(facts, keeper)


def topic_settings(arguments: Arguments) -> Mapping[str, str]:
    """Return the settings of a stream's topic; raise InvalidRequest for a wrong argument."""
    settings = {"retention.ms": "-1", "retention.bytes": "-1"}
    if "x-max-age" in arguments:
        settings["retention.ms"] = str(age_ms("x-max-age", arguments["x-max-age"]))
    for name, setting in (
        ("x-max-length-bytes", "retention.bytes"),
        ("x-stream-max-segment-size-bytes", "segment.bytes"),
    ):
        value = arguments.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidRequest(f"invalid arg '{name}': it takes a whole number, not {value!r}")
        settings[setting] = str(max(value, SEGMENT_MIN) if setting == "segment.bytes" else value)
    return settings


def age_ms(name: str, value: Any) -> int:
    """Return a length of time such as `7D` or `12h`; raise InvalidRequest if it is none."""
    found = _AGE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidRequest(f"invalid arg '{name}': {value!r} is no time such as 7D or 12h")
    return int(found[1]) * UNITS_MS[found[2]]

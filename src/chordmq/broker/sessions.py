"""Durable sessions of clients that come back: what they subscribed to, and how far they got.

The topic `__sessions` is compacted. A key is `s` or `p` and the client's id; under `s` lies what
the client has asked for, under `p` its progress, both as MessagePack; no value means the end.
"""

import asyncio
from dataclasses import replace
from typing import Protocol

import msgspec

from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.errors import ChordMQError, CoordinatorLoading, DecodeError
from chordmq.logs import get_logger

log = get_logger(__name__)

ASKED, PROGRESS = b"s", b"p"


class StoredSubscription(msgspec.Struct, frozen=True, array_like=True):
    """A filter, and how the client wants what it matches."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    user: tuple[tuple[str, str], ...] = ()


class StoredWill(msgspec.Struct, frozen=True, array_like=True):
    """A message that is due when the client stays away."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    """As the client's protocol writes them."""


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has asked for."""

    client: str
    user: str
    expiry_s: int
    left_ms: int | None = None
    """When the client went; None while it is connected, or was when the node went down."""
    producer_id: int = -1
    """Under which the client's messages of QoS 2 are in the log."""
    subscriptions: tuple[StoredSubscription, ...] = ()
    will: StoredWill | None = None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where to read on in a partition."""

    topic_id: bytes
    partition: int
    offset: int


class StreamPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where to read on in a partition of a stream."""

    filter: str
    topic_id: bytes
    partition: int
    offset: int


class StoredFlight(msgspec.Struct, frozen=True, array_like=True):
    """A message of QoS 2 on its way to the client: under which number, and how far it is."""

    id: int
    topic_id: bytes
    partition: int
    offset: int
    state: int
    filter: str = ""
    """Of the stream that has brought it; empty for what subscriptions have found."""


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """A message of QoS 2 from the client: its number, and where it went in which order."""

    id: int
    topic_id: bytes
    partition: int
    sequence: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a client got."""

    client: str
    places: tuple[Place, ...] = ()
    flights: tuple[StoredFlight, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    streams: tuple[StreamPlace, ...] = ()


class Ended(msgspec.Struct, frozen=True):
    """A client's part that is no more."""

    key: bytes


Entry = StoredSession | Progress | Ended


def write(entry: Entry) -> tuple[bytes, bytes | None]:
    """Return a record's key and value."""
    if isinstance(entry, Ended):
        return entry.key, None
    kind = ASKED if isinstance(entry, StoredSession) else PROGRESS
    return kind + entry.client.encode(), msgspec.msgpack.encode(entry)


def read(key: bytes, value: bytes | None) -> Entry | None:
    """Return what a record says; raise DecodeError if it makes no sense."""
    if value is None:
        return Ended(key)
    try:
        if key[:1] == ASKED:
            return msgspec.msgpack.decode(value, type=StoredSession)
        if key[:1] == PROGRESS:
            return msgspec.msgpack.decode(value, type=Progress)
    except msgspec.DecodeError as error:
        raise DecodeError(f"a session's record: {error}") from None
    raise DecodeError("a session's record of an unknown kind")


class _Kept:
    """What a part of the log adds up to."""

    def __init__(self) -> None:
        self.asked: dict[str, StoredSession] = {}
        self._progress: dict[str, Progress] = {}

    def replay(self, entry: Entry) -> None:
        """Apply one entry."""
        if isinstance(entry, StoredSession):
            self.asked[entry.client] = entry
        elif isinstance(entry, Progress):
            self._progress[entry.client] = entry
        else:
            client = entry.key[1:].decode()
            kind = self.asked if entry.key[:1] == ASKED else self._progress
            kind.pop(client, None)

    async def hand_over(self, keeper: "Keeper") -> None:
        """Have all sessions looked after."""
        for client, session in self.asked.items():
            await keeper.restore(session, self._progress.get(client, Progress(client=client)))


SESSION_TOPIC: InternalTopic[Entry] = InternalTopic(
    name="__sessions",
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 2**20),
        "max.message.bytes": str(100 * 2**20),
    },
    # Few, so that one flush serves many sessions.
    partitions=lambda settings: 4,
    write=write,
    read=read,
)


class Keeper(Protocol):
    """Who looks after the sessions that this node has."""

    async def restore(self, asked: StoredSession, progress: Progress) -> None:
        """Look after a session that the log has kept."""
        ...

    def give_up(self, partition: int) -> None:
        """Forget the sessions in a part of the log that another node leads now."""
        ...


class Sessions:
    """Keeps sessions in a log; in a cluster each is where its partition of the log is led."""

    def __init__(self, host: Host) -> None:
        topic = SESSION_TOPIC
        if not host.topics.is_alone:  # more nodes share the work
            topic = replace(SESSION_TOPIC, partitions=lambda settings: 12)
        self._log = InternalLog(host, topic)
        self._keeper: Keeper | None = None
        self._unclaimed: dict[int, _Kept] = {}
        """What was read before there was a keeper, by partition."""
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Read what this node leads of the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            try:
                await self._log.serve(self._load, self._unload, self.loaded.set)
                await asyncio.Event().wait()
            finally:
                self.loaded.clear()
                self._log.close()

    def look_again(self) -> None:
        """Take note that partitions of the log may have come, or changed their leader."""
        self._log.look_again()

    @property
    def is_any_unclaimed(self) -> bool:
        """Return whether there are sessions that nobody looks after yet."""
        return any(kept.asked for kept in self._unclaimed.values())

    async def follow(self, keeper: Keeper) -> None:
        """Have sessions looked after, those that are read already and those to come."""
        self._keeper = keeper
        unclaimed, self._unclaimed = self._unclaimed, {}
        for kept in unclaimed.values():
            await kept.hand_over(keeper)

    async def _load(self, index: int) -> None:
        kept = _Kept()
        async for batch in self._log.replay(index):
            for entry in batch.entries:
                kept.replay(entry)
        log.info("sessions loaded", partition=index, sessions=len(kept.asked))
        if self._keeper is None:
            self._unclaimed[index] = kept
        else:
            await kept.hand_over(self._keeper)

    def _unload(self, index: int) -> None:
        self._unclaimed.pop(index, None)
        if self._keeper is not None:
            self._keeper.give_up(index)

    def partition_of(self, client: str) -> int:
        """Return which partition of the log keeps a client's session."""
        return self._log.partition_of(client)

    def check(self, client: str) -> None:
        """Raise NotCoordinator, or CoordinatorLoading, unless the session is looked after here."""
        self._log.check(client)

    def is_home(self, client: str) -> bool:
        """Return whether a client's session is looked after here."""
        try:
            self._log.check(client)
        except ChordMQError:
            return False
        return True

    async def home_of(self, client: str) -> int | None:
        """Return the node that looks after a client's session; None for this one."""
        return await self._log.home_of(client)

    def store(self, *entries: StoredSession | Progress) -> asyncio.Future[None]:
        """Write what has changed of one client; the future is done when it is in the log."""
        return self._append(entries[0].client, list(entries))

    def delete(self, client: str) -> asyncio.Future[None]:
        """Forget a client; the future is done when that is in the log."""
        name = client.encode()
        return self._append(client, [Ended(ASKED + name), Ended(PROGRESS + name)])

    def _append(self, client: str, entries: list[Entry]) -> asyncio.Future[None]:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        if not self.loaded.is_set():
            raise CoordinatorLoading("sessions are being read from the log")
        self._log.append(client, entries, done)
        return written

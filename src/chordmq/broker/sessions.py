"""Durable sessions of clients that come back: what they subscribed to, and how far they got.

The topic `__sessions` is compacted. A key is `s` or `p` and the client's id; under `s` lies what
the client has asked for, under `p` its progress, both as MessagePack; no value means the end.
"""

import asyncio
from collections.abc import Iterator

import msgspec
import structlog

from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.errors import ChordMQError, CoordinatorLoading, DecodeError

log = structlog.get_logger(__name__)

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


class StoredFlight(msgspec.Struct, frozen=True, array_like=True):
    """A message of QoS 2 on its way to the client: under which number, and how far it is."""

    id: int
    topic_id: bytes
    partition: int
    offset: int
    state: int


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
    is_written_anywhere=True,
)


class Sessions:
    """Keeps sessions in a log; who uses them reads them once, when `loaded` is set."""

    def __init__(self, host: Host) -> None:
        self._log = InternalLog(host, SESSION_TOPIC)
        self._asked: dict[str, StoredSession] = {}
        self._progress: dict[str, Progress] = {}
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Read the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._log.open(tasks)
            try:
                async for batch in self._log.replay():
                    for entry in batch.entries:
                        self._replay(entry)
                self.loaded.set()
                log.info("sessions loaded", sessions=len(self._asked))
                await asyncio.Event().wait()
            finally:
                self.loaded.clear()
                self._log.close()

    def take(self) -> Iterator[tuple[StoredSession, Progress]]:
        """Yield everything the log held at the start, once."""
        for client, session in self._asked.items():
            yield session, self._progress.get(client, Progress(client=client))
        self._asked, self._progress = {}, {}

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

    def _replay(self, entry: Entry) -> None:
        if isinstance(entry, StoredSession):
            self._asked[entry.client] = entry
        elif isinstance(entry, Progress):
            self._progress[entry.client] = entry
        else:
            client = entry.key[1:].decode()
            kind = self._asked if entry.key[:1] == ASKED else self._progress
            kind.pop(client, None)

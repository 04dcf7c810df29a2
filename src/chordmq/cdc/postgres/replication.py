"""PostgreSQL's replication protocol over libpq: slots, and a stream of messages both ways.

psycopg has no such interface; its wrapper of libpq has the calls.
"""

import asyncio
from struct import Struct
from typing import NamedTuple

import psycopg
from psycopg import pq

from chordmq.cdc.errors import Malformed, PositionLost, SourceUnavailable
from chordmq.cdc.postgres.pgoutput import EPOCH_US, lsn_text, read_lsn

_DATA = Struct(">cQQq")
_KEEPALIVE = Struct(">cQqB")
_STATUS = Struct(">cQQQqB")
NOT_IN_PREREQUISITE_STATE = "55000"
UNDEFINED_OBJECT = "42704"
MESSAGES_SINCE = 140000
READ_MAX = 4_096
"""About so many messages are taken at a time, so that others get their turn."""


Arrived = tuple[int, bytes]
"""A message of the output plugin, after its place in the write-ahead log."""


class Alive(NamedTuple):
    """The server has nothing before this place that it has not sent."""

    lsn: int
    wants_reply: bool


class Slot(NamedTuple):
    """A new slot: where its stream begins, and the snapshot of that moment."""

    lsn: int
    snapshot: str


class Replication:
    """One replication connection."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._loop = asyncio.get_running_loop()
        self._confirmed = 0
        self._received = 0

    async def create_slot(self, name: str) -> Slot:
        """Make a slot for pgoutput; its snapshot lasts until the stream is started."""
        found = await self._connection.execute(
            f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput EXPORT_SNAPSHOT"
        )
        row = await found.fetchone()
        assert row is not None, "the server tells the slot that it has made"
        return Slot(read_lsn(str(row[1])), str(row[2]))

    async def start(self, slot: str, lsn: int, publication: str) -> None:
        """Start the stream after a place; raise PositionLost if that is no longer there."""
        options = f"proto_version '1', publication_names '{publication}'"
        if self._pg.server_version >= MESSAGES_SINCE:
            options += ", messages 'true'"
        command = f"START_REPLICATION SLOT {slot} LOGICAL {lsn_text(lsn)} ({options})"
        self._pg.send_query(command.encode())
        self._pg.flush()
        while self._pg.is_busy():
            await self._readable()
            self._consume()
        result = self._pg.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            self._refused(result)
        self._confirmed = self._received = lsn

    async def receive(self) -> list[Arrived | Alive]:
        """Return what has arrived, at least one message."""
        while True:
            found = self._drain()
            more = found
            while more and len(found) < READ_MAX:  # libpq takes little at a time
                self._consume()
                more = self._drain()
                found += more
            if found:
                return found
            await self._readable()
            self._consume()

    def tell(self, lsn: int, now_us: int, *, wants_reply: bool = False) -> None:
        """Tell the server that nothing before a place is needed any more."""
        self._confirmed = max(self._confirmed, lsn)
        received = max(self._received, self._confirmed)
        status = _STATUS.pack(
            b"r", received, self._confirmed, self._confirmed, now_us - EPOCH_US, wants_reply
        )
        try:
            self._pg.put_copy_data(status)
            self._pg.flush()
        except psycopg.Error as error:
            raise SourceUnavailable(_said(error)) from None

    def _drain(self) -> list[Arrived | Alive]:
        found: list[Arrived | Alive] = []
        get, received = self._pg.get_copy_data, self._received
        unpack = _DATA.unpack_from
        try:
            while len(found) < READ_MAX:
                size, data = get(1)
                if size == 0:
                    break
                if size < 0:
                    self._ended()
                message = bytes(data)
                if message[:1] == b"w":
                    lsn = unpack(message)[1]
                    if lsn > received:
                        received = lsn
                    found.append((lsn, message[25:]))
                elif message[:1] == b"k":
                    _, lsn, _, wants_reply = _KEEPALIVE.unpack_from(message)
                    found.append(Alive(lsn, bool(wants_reply)))
                else:
                    raise Malformed(f"the server sent a message of kind {message[:1]!r}")
        except psycopg.Error as error:
            raise SourceUnavailable(_said(error)) from None
        self._received = received
        return found

    def _consume(self) -> None:
        try:
            self._pg.consume_input()
        except psycopg.Error as error:
            raise SourceUnavailable(_said(error)) from None

    def _ended(self) -> None:
        result = self._pg.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            self._refused(result)
        raise SourceUnavailable("PostgreSQL has ended the stream")

    def _refused(self, result: pq.abc.PGresult | None) -> None:
        said = result.error_message if result is not None else self._pg.error_message
        message = bytes(said).decode(errors="replace")
        field = result.error_field(pq.DiagnosticField.SQLSTATE) if result is not None else None
        state = (field or b"").decode()
        if state in (NOT_IN_PREREQUISITE_STATE, UNDEFINED_OBJECT):
            raise PositionLost(f"PostgreSQL: {message.strip()}")
        raise SourceUnavailable(f"PostgreSQL: {message.strip()}")

    async def _readable(self) -> None:
        ready = self._loop.create_future()
        socket = self._pg.socket

        def wake() -> None:
            self._loop.remove_reader(socket)
            if not ready.done():
                ready.set_result(None)

        self._loop.add_reader(socket, wake)
        try:
            await ready
        finally:
            if not ready.done() or ready.cancelled():
                self._loop.remove_reader(socket)


def _said(error: psycopg.Error) -> str:
    return f"PostgreSQL: {str(error).strip() or type(error).__name__}"

"""Records as server-sent events: pushed when they are committed, resumed by Last-Event-ID."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from chordmq.broker.feed import Feed, Found, Offsets, write_position
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.quotas import Limit
from chordmq.codecs.texts import Shown
from chordmq.errors import ChordMQError, OffsetOutOfRange
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import from_record
from chordmq.fronts.admin.records import Place, readable, starts
from chordmq.fronts.admin.sending import patient

EVENTS = "text/event-stream"
HEARTBEAT_S = 15.0
"""Between comments on a quiet stream, which keep proxies from closing it."""
WRITE_BYTES = 256 * 1024
WRITE_RECORDS = 1_000
RETRY_MS = 1_000

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


async def stream(call: Call, query: Place) -> Response:
    """Follow a topic: each event is a record, its id the position after it.

    A client that comes back with `Last-Event-ID`, as browsers do by themselves, misses nothing and
    gets nothing twice. The event `gap` says which offsets were deleted before they could be read.
    A client that reads too slowly is waited for, and one above its quota waits; the log is not read
    meanwhile.
    """
    if call.request.scope["http_version"] == "3":
        raise HTTPException(HTTPStatus.UPGRADE_REQUIRED, "follow topics over HTTP/1.1 or HTTP/2")
    last = call.request.headers.get("last-event-id")
    if last:
        query = msgspec.structs.replace(query, position=last, offset=None, timestamp=None)
    call.meter.refuse_debtor(Limit.FETCH)
    partitions = readable(call, query)
    feed = Feed(partitions, await starts(call, partitions, query), is_patient=True)
    return EventStream(call, feed, query.encoding)


class EventStream(StreamingResponse):
    """One client that follows a topic."""

    def __init__(self, call: Call, feed: Feed, shown: Shown) -> None:
        self._call = call
        self._feed = feed
        self._shown = shown
        self._client = (call.principal.name, call.host)
        self._acl_version = call.broker.permissions.acl.version
        self._admit()
        super().__init__(self._events(), media_type=EVENTS, headers={"cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client or the topic goes away."""
        try:
            with self._call.living_by_login(self._feed.wake):
                await super().__call__(scope, receive, patient(scope, send))
        except TimeoutError:
            pass  # the connection is gone
        finally:
            self._feed.close()
            self._leave()

    async def _events(self) -> AsyncIterator[bytes]:
        """Yield what is there, joined into few writes, then wait for more."""
        feed = self._feed
        yield f"retry: {RETRY_MS}\n\n".encode()
        try:
            while True:
                before = dict(feed.offsets)
                try:
                    found = feed.take(WRITE_RECORDS, WRITE_BYTES)
                except OffsetOutOfRange:
                    yield self._gaps()
                    continue
                if found:
                    events = self._written(found, before)
                    yield events
                    self._call.meter.fetched += len(events)
                    await self._call.meter.pause()
                elif not await feed.more(HEARTBEAT_S):
                    yield b":\n\n"
                self._check_again()
        except ChordMQError as error:
            fault = {"error": type(error).__name__, "message": str(error)}
            yield _event("error", None, msgspec.json.encode(fault))

    def _written(self, found: list[Found], offsets: Offsets) -> bytes:
        """Return records as events; each id is where to go on after its record."""
        events = []
        for index, record in found:
            offsets[index] = record.offset + 1
            data = msgspec.json.encode(from_record(index, record, self._shown))
            events.append(_event("record", write_position(offsets), data))
        return b"".join(events)

    def _gaps(self) -> bytes:
        gaps = self._feed.skip_gaps()
        position = write_position(self._feed.offsets)
        return b"".join(_event("gap", position, msgspec.json.encode(gap)) for gap in gaps)

    def _check_again(self) -> None:
        """End the stream when a change of ACLs forbids it, or the login is not good any more."""
        self._call.check_login()
        version = self._call.broker.permissions.acl.version
        if version != self._acl_version:
            self._acl_version = version
            self._call.check(Operation.READ, Kind.TOPIC, self._call.path("topic"))

    def _admit(self) -> None:
        streams, limit = self._call.shared.streams, self._call.shared.settings
        if streams[self._client] >= limit.streams_per_client_max:
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, "too many event streams are open")
        streams[self._client] += 1

    def _leave(self) -> None:
        streams = self._call.shared.streams
        streams[self._client] -= 1
        if not streams[self._client]:
            del streams[self._client]


def _event(name: str, position: str | None, data: bytes) -> bytes:
    head = f"id: {position}\nevent: {name}\n" if position is not None else f"event: {name}\n"
    # Line breaks in JSON stand between its parts only, where a space means the same.
    return head.encode() + b"data: " + data.translate(_ONE_LINE) + b"\n\n"


ROUTES = [
    Api(
        "GET",
        "/v1/topics/{topic}/stream",
        stream,
        answers={HTTPStatus.OK: {EVENTS: str}},
    )
]

"""Snapshots of MongoDB: every document as it was at one time, also if reading is interrupted."""

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from bson import Timestamp, json_util

from chordmq.cdc.change import Burst, Part, Place, Position, Snapshot
from chordmq.cdc.mongodb.server import CODEC, SnapshotGone, now, page
from chordmq.cdc.mongodb.stream import position_of, time_of

if TYPE_CHECKING:
    from chordmq.cdc.mongodb.source import MongoStream

_OPTIONS = json_util.CANONICAL_JSON_OPTIONS.with_options(
    datetime_conversion=CODEC.datetime_conversion
)


def stored_id(value: Any) -> list[str]:
    """Return an id as a position keeps it."""
    return [json_util.dumps(value, json_options=_OPTIONS)]


def read_id(stored: Sequence[str] | None) -> list[Any] | None:
    """Return a kept id, in a list because it may be null itself."""
    return None if stored is None else [json_util.loads(stored[0], json_options=_OPTIONS)]


class Page(NamedTuple):
    """Documents of one collection, and the time that they show."""

    scope: str
    documents: list[dict[str, Any]]
    time: Timestamp


async def snapshot_bursts(stream: "MongoStream") -> AsyncGenerator[Burst, None]:
    """Tell what is still to be read of a snapshot.

    It shows the database at the time where the stream will begin. Where it goes on after a crash,
    or because the server forgets the past after some minutes, it shows a later time; the position
    says so, and the stream does not tell again what those documents show.
    """
    position = stream.position
    assert position.snapshot is not None, "there is something to read"
    reading = _Reading(stream, position)
    if not stream.is_new:
        await reading.move_on()
    held: tuple[str, dict[str, Any], Timestamp] | None = None
    while True:
        found = await reading.page()
        if found is None:
            break
        documents = [(found.scope, one, found.time) for one in found.documents]
        if held is not None:
            documents.insert(0, held)
        held = documents.pop()
        if documents:
            yield reading.burst(documents, held[0])
    last = [] if held is None else [reading.told(*held, "last")]
    yield Burst(last, msgspec.structs.replace(reading.position, snapshot=None))


class _Reading:
    """How far a snapshot is, and when it looks at the database."""

    def __init__(self, stream: "MongoStream", position: Position) -> None:
        assert position.snapshot is not None
        self._stream = stream
        self.position = position
        self._todo = list(position.snapshot.todo)
        self._next = self._todo
        self._after = read_id(position.snapshot.last)
        self._told = position.snapshot
        self._time = time_of(position.at)

    async def move_on(self) -> None:
        """Look at the database as it is now, and note what is read so."""
        self._time = await now(self._stream.client)
        at = position_of(self._time)
        after = None if self._after is None else stored_id(self._after[0])
        parts = [
            Part(scope, after if number == 0 else None, at, at)
            for number, scope in enumerate(self._next)
        ]
        self.position = msgspec.structs.replace(self.position, parts=[*self.position.parts, *parts])

    async def page(self) -> Page | None:
        """Return the next documents, or None at the end."""
        while self._next:
            scope = self._next[0]
            place = Place(*scope.split(".", 1))
            bounds = (self._after, self._stream.source.pace.snapshot_rows)
            client, session = self._stream.client, self._stream.session
            try:
                documents = await page(client, session, place, bounds, self._time)
            except SnapshotGone:
                await self.move_on()
                continue
            if documents:
                self._after = [documents[-1]["_id"]]
                return Page(scope, documents, self._time)
            self._next, self._after = self._next[1:], None
        return None

    def burst(self, documents: list[tuple[str, dict[str, Any], Timestamp]], held: str) -> Burst:
        """Return documents as changes; the next one to be told is of the collection `held`."""
        changes = [
            self.told(*one, "true" if self._told.rows + number else "first")
            for number, one in enumerate(documents)
        ]
        scope, document, _ = documents[-1]
        todo = self._todo[self._todo.index(held) :]
        last = stored_id(document["_id"]) if scope == held else None
        self._told = Snapshot(todo, last, self._told.rows + len(documents))
        return Burst(changes, msgspec.structs.replace(self.position, snapshot=self._told))

    def told(self, scope: str, document: dict[str, Any], time: Timestamp, mark: str) -> Any:
        """Return a document as a change."""
        return self._stream.events.read(Place(*scope.split(".", 1)), document, time, mark)

"""One change stream, read in batches, with the token that follows each of them."""

from typing import Any, NamedTuple

from bson import Int64, Timestamp
from pymongo.errors import OperationFailure

from chordmq.cdc.mongodb.fragments import SPLIT, Fragments, has_split
from chordmq.cdc.mongodb.server import TOO_LARGE, Client, OversizedEvent, Session, command, version
from chordmq.cdc.settings import Source

BATCH = 2_000
WAIT_MS = 1_000
CLUSTER = "$cmd.aggregate"
IMAGES = {"post_image": "whenAvailable", "lookup": "updateLookup", "off": "default"}

_WITHOUT_DOCUMENTS = {"$project": {"fullDocument": 0, "fullDocumentBeforeChange": 0}}


class Batch(NamedTuple):
    """Events, and the token after which the next ones come."""

    events: list[dict[str, Any]]
    token: str
    """Empty if no whole event has come."""
    is_open: bool
    """False when the stream has ended, as after its database was dropped."""


def token_time(token: str) -> Timestamp:
    """Return the time that a resume token stands for: its first number, after one byte of type."""
    return Timestamp(int(token[2:10], 16), int(token[10:18], 16))


def start_of(at: str) -> dict[str, Any]:
    """Return the option that starts a stream after a position: a token, or `@time.increment`."""
    if at.startswith("@"):
        time, increment = map(int, at[1:].split("."))
        return {"startAtOperationTime": Timestamp(time, increment + 1)}
    return {"startAfter": {"_data": at}}


def time_of(at: str) -> Timestamp:
    """Return the time of a position."""
    if at.startswith("@"):
        time, increment = map(int, at[1:].split("."))
        return Timestamp(time, increment)
    return token_time(at)


def position_of(time: Timestamp) -> str:
    """Return the position after everything that happened up to a time."""
    return f"@{time.time}.{time.inc}"


class ChangeStream:
    """An open cursor over changes."""

    def __init__(
        self,
        client: Client,
        session: Session,
        source: Source,
        match: dict[str, Any],
        only: str | None,
    ) -> None:
        self._client = client
        self._session = session
        self._source = source
        self._match = match
        self._database = only or "admin"
        self._everything = only is None
        self._cursor = 0
        self._size = BATCH
        self._fragments = Fragments()
        self._splits: bool | None = None
        """Whether the server can split large events; not known before it is asked."""

    async def open(self, at: str, *, one: bool = False, documents: bool = True) -> Batch:
        """Start after a position; with `one` event at a time, or without their documents."""
        if self._splits is None:
            self._splits = has_split(await version(self._client))
        self._fragments.forget()
        options: dict[str, Any] = start_of(at)
        if self._everything:
            options["allChangesForCluster"] = True
        if documents:
            options["fullDocument"] = IMAGES[self._source.images]
            if self._source.before_images:
                options["fullDocumentBeforeChange"] = "whenAvailable"
        stages: list[dict[str, Any]] = [{"$changeStream": options}, self._match]
        if not documents:
            stages.append(_WITHOUT_DOCUMENTS)
        if self._splits:
            stages.append(SPLIT)
        self._size = 1 if one else BATCH
        body = {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": 0}}
        return await self._asked(body | {"readConcern": {"level": "majority"}}, "firstBatch")

    async def more(self) -> Batch:
        """Wait for events, a second at most."""
        body = {
            "getMore": Int64(self._cursor),
            "collection": CLUSTER,
            "batchSize": self._size,
            "maxTimeMS": WAIT_MS,
        }
        return await self._asked(body, "nextBatch")

    async def close(self) -> None:
        """Let the server forget the cursor."""
        if self._cursor:
            body = {"killCursors": CLUSTER, "cursors": [Int64(self._cursor)]}
            self._cursor = 0
            await command(self._client, self._database, body, self._session)

    async def _asked(self, body: dict[str, Any], name: str) -> Batch:
        try:
            answer = await command(self._client, self._database, body, self._session)
        except OperationFailure as error:
            self._cursor = 0
            if error.code == TOO_LARGE:
                raise OversizedEvent from None
            raise
        cursor = answer["cursor"]
        self._cursor = int(cursor["id"])
        events = self._fragments.joined(cursor[name])
        after = events[-1]["_id"] if events else {}
        if not self._fragments.is_open:
            after = cursor.get("postBatchResumeToken") or after
        return Batch(events, after.get("_data", ""), bool(self._cursor))

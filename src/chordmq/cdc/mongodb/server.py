"""Talks to MongoDB by its commands: change streams, snapshots at one time, and what it has."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bson import Int64, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import (
    ConfigurationError,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from chordmq.cdc.change import Place
from chordmq.cdc.errors import (
    CdcError,
    InvalidSource,
    PositionLost,
    SourceRefused,
    SourceUnavailable,
)
from chordmq.cdc.settings import Source

TIMEOUT_MS = 10_000
HISTORY_LOST, INVALID_TOKEN, FATAL = 286, 260, 280
TOO_LARGE = 10334
SNAPSHOT_TOO_OLD, SNAPSHOT_UNAVAILABLE = 239, 246
REFUSALS = {13, 18, 40573}
"""No permission, wrong password, no replica set: waiting does not help."""
SYSTEM = ("admin", "config", "local")
# Dates beyond Python's own, and as numbers, which is how they are told.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)

Client = AsyncMongoClient[dict[str, Any]]
Session = AsyncClientSession


class OversizedEvent(Exception):
    """The server cannot send the next event, because it is too large."""


class SnapshotGone(Exception):
    """The server no longer has the past that a snapshot reads."""


@asynccontextmanager
async def connected(source: Source) -> AsyncIterator[Client]:
    """Stay connected for the length of a block; turn pymongo's errors into ours."""
    try:
        client: Client = AsyncMongoClient(
            source.address, serverSelectionTimeoutMS=TIMEOUT_MS, appname="chordmq-cdc"
        )
    except (InvalidURI, ConfigurationError, ValueError) as error:
        raise InvalidSource(f"the address is not one of MongoDB: {error}") from None
    async with client:
        try:
            yield client
        except PyMongoError as error:
            raise explained(error) from error


def explained(error: PyMongoError) -> CdcError:
    """Return what an error of the database means for us."""
    said = str(error).split(", full error")[0]
    if isinstance(error, OperationFailure):
        if error.code in (HISTORY_LOST, INVALID_TOKEN, FATAL):
            return PositionLost(f"MongoDB no longer has what follows the position: {said}")
        if error.code in REFUSALS:
            return SourceRefused(f"MongoDB: {said}")
    if isinstance(error, ServerSelectionTimeoutError):
        said = said.split(", Timeout:")[0]
    return SourceUnavailable(f"MongoDB: {said}")


async def command(client: Client, database: str, body: Mapping[str, Any], session: Session) -> Any:
    """Run a command in a session, and return its answer with dates as numbers."""
    return await client[database].command(dict(body), session=session, codec_options=CODEC)


async def now(client: Client) -> Timestamp:
    """Return the time of the newest operation."""
    answer = await client.admin.command("ping")
    if "operationTime" not in answer:
        raise SourceRefused(
            "MongoDB runs without a replica set, and has no change streams. "
            "Start it with --replSet and run rs.initiate()"
        )
    time: Timestamp = answer["operationTime"]
    return time


async def version(client: Client) -> list[int]:
    """Return the numbers of the server's version."""
    answer = await client.admin.command("buildInfo")
    return [int(number) for number in answer["versionArray"]]


async def collections(client: Client, only: str | None) -> list[Place]:
    """Return all collections that have changes, of one database or of all."""
    names = [only] if only else await client.list_database_names()
    found = []
    for name in names:
        if name in SYSTEM:
            continue
        cursor = await client[name].list_collections()
        found += [
            Place(name, one["name"])
            async for one in cursor
            if one["type"] == "collection" and not one["name"].startswith("system.")
        ]
    return sorted(found)


async def page(
    client: Client, session: Session, place: Place, bounds: tuple[Any, int], time: Timestamp
) -> list[dict[str, Any]]:
    """Return documents in the order of their ids as they were at a time.

    `bounds` are a list with the id after which they begin, or None, and how many.
    """
    after, count = bounds
    body: dict[str, Any] = {
        "find": place.name,
        "hint": {"_id": 1},
        "limit": count + (after is not None),
        "batchSize": count + 1,
        "readConcern": {"level": "snapshot", "atClusterTime": time},
    }
    if after is not None:
        # Unlike $gt this does not stop where ids of another type begin; it includes the id.
        body["min"] = {"_id": after[0]}
    else:
        body["sort"] = {"_id": 1}
    try:
        found = await _whole(client, session, place, body)
    except OperationFailure as error:
        if error.code in (SNAPSHOT_TOO_OLD, SNAPSHOT_UNAVAILABLE):
            raise SnapshotGone from None
        raise
    if after is not None and found and found[0]["_id"] == after[0]:
        del found[0]
    return found[:count]


async def _whole(
    client: Client, session: Session, place: Place, body: Mapping[str, Any]
) -> list[dict[str, Any]]:
    answer = await command(client, place.namespace, body, session)
    found: list[dict[str, Any]] = answer["cursor"]["firstBatch"]
    while answer["cursor"]["id"]:
        more = {"getMore": Int64(answer["cursor"]["id"]), "collection": place.name}
        answer = await command(client, place.namespace, more, session)
        found += answer["cursor"]["nextBatch"]
    return found


def matching(include: Sequence[str], exclude: Sequence[str], signals: str) -> dict[str, Any]:
    """Return the stage by which the server sends only what is told."""
    name = {"$concat": ["$ns.db", ".", {"$ifNull": ["$ns.coll", ""]}]}
    conditions: list[Any] = []
    if include:
        listed = [*include, re.escape(signals)] if signals else include
        conditions.append({"$regexMatch": {"input": name, "regex": _whole_name(listed)}})
    if exclude:
        conditions.append({"$not": {"$regexMatch": {"input": name, "regex": _whole_name(exclude)}}})
    rows = {"$in": ["$operationType", ["insert", "update", "replace", "delete"]]}
    other = {"$in": ["$operationType", ["invalidate", "dropDatabase", "drop", "rename"]]}
    return {"$match": {"$expr": {"$or": [other, {"$and": [rows, *conditions]}]}}}


def _whole_name(patterns: Sequence[str]) -> str:
    return "^(?:" + "|".join(f"(?:{one})" for one in patterns) + ")$"

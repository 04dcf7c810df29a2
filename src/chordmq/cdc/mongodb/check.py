"""Looks whether a MongoDB can be followed, and says what it lacks."""

from collections.abc import AsyncIterator

from chordmq.cdc.errors import SourceRefused
from chordmq.cdc.findings import Finding, Level
from chordmq.cdc.mongodb.server import Client, collections, connected, now
from chordmq.cdc.selection import Selection, chosen
from chordmq.cdc.settings import Source

HOUR_S = 3600
DAY_H = 24


async def findings(source: Source) -> list[Finding]:
    """Return what was found, the deployment as it is."""
    async with connected(source) as client:
        return [one async for one in _looked(client, source)]


async def _looked(client: Client, source: Source) -> AsyncIterator[Finding]:
    info = await client.server_info()
    yield Finding(Level.OK, f"MongoDB {info['version']}")
    try:
        await now(client)
    except SourceRefused as error:
        yield Finding(Level.ERROR, *str(error).split(". ", 1))
        return
    yield Finding(Level.OK, "it is a replica set")
    database = client.get_default_database("admin").name
    only = None if database == "admin" else database
    there = await collections(client, only)
    told = chosen(there, Selection(source.tables, source.columns))
    if told:
        listed = ", ".join(map(str, told[:10]))
        yield Finding(Level.OK, f"{len(told)} collections are chosen: {listed}")
    else:
        advice = "Look at tables.include; collections that come later are told then."
        yield Finding(Level.WARNING, "no collection is chosen", advice)
    if source.before_images or source.images == "post_image":
        for place in told:
            described = await client[place.namespace].list_collections(filter={"name": place.name})
            async for one in described:
                kept = one["options"].get("changeStreamPreAndPostImages", {}).get("enabled")
                if not kept:
                    yield Finding(
                        Level.WARNING,
                        f"{place} keeps no images",
                        f'db.runCommand({{collMod: "{place.name}", '
                        "changeStreamPreAndPostImages: {enabled: true}})",
                    )
    async for finding in _history(client):
        yield finding


async def _history(client: Client) -> AsyncIterator[Finding]:
    oplog = client.local["oplog.rs"]
    first = await oplog.find_one(sort=[("$natural", 1)], projection={"ts": 1})
    last = await oplog.find_one(sort=[("$natural", -1)], projection={"ts": 1})
    if first is None or last is None:
        return
    stats = await client.local.command("collStats", "oplog.rs")
    hours = (last["ts"].time - first["ts"].time) / HOUR_S
    full = stats["size"] >= 0.9 * stats["maxSize"]
    text = f"the oplog holds {hours:.1f} hours in {stats['maxSize'] / 1e6:.0f} MB"
    if full and hours < DAY_H:
        advice = "A source that is away longer needs a new snapshot: replSetResizeOplog."
        yield Finding(Level.WARNING, text, advice)
    else:
        yield Finding(Level.OK, text)

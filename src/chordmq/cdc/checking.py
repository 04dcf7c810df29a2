"""Looks at a source from outside: what its database and its broker lack, and how far it is."""

import json
import urllib.error
import urllib.request
from asyncio import to_thread
from typing import Any

from chordmq.cdc.errors import CdcError
from chordmq.cdc.findings import Finding, Level
from chordmq.cdc.runner import Broker, stored_position
from chordmq.cdc.settings import Source
from chordmq.client.admin import Admin
from chordmq.client.errors import ClientError

PATIENCE_S = 3.0


async def findings(source: Source, broker: Broker) -> list[Finding]:
    """Return what was found; a database or broker that does not answer is a finding, too."""
    found = [await _broker(broker)]
    try:
        if source.kind == "postgresql":
            from chordmq.cdc.postgres.check import findings as postgres

            return found + await postgres(source)
        from chordmq.cdc.mongodb.check import findings as mongodb

        return found + await mongodb(source)
    except CdcError as error:
        advice = "Look at `address`: host, port, user and password."
        return [*found, Finding(Level.ERROR, str(error), advice)]


async def status_of(source: Source, broker: Broker) -> dict[str, Any]:
    """Return how far a source is: by itself if it answers, else by what is stored."""
    position = await stored_position(source, broker)
    found: dict[str, Any] = {"source": source.name, "state": "not running"}
    if position is not None:
        found["position"] = position.at
        found["snapshot"] = position.snapshot.todo if position.snapshot else None
        found["incremental"] = position.incremental.todo if position.incremental else None
    else:
        found["state"] = "never ran"
    health = await to_thread(_health, source) if source.port else None
    if health is not None:
        found |= {key: health[key] for key in ("state", "healthy", "failure", "changes")}
        found |= {"lag_s": round(health["lag"].pop("seconds"), 3), "lag": health["lag"]}
    return found


async def _broker(broker: Broker) -> Finding:
    try:
        async with Admin(broker.bootstrap, broker.connection) as admin:
            await admin.topics()
    except (ClientError, OSError) as error:
        return Finding(Level.ERROR, f"the broker: {error}", "Look at `broker.bootstrap`.")
    return Finding(Level.OK, f"the broker answers at {broker.bootstrap}")


def _health(source: Source) -> dict[str, Any] | None:
    address = f"http://{source.host}:{source.port}/health"
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            return dict(json.load(error))
    except (OSError, ValueError):
        return None

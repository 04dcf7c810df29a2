"""Who this node is, and which producer ids it has given away."""

import sqlite3
import uuid
from base64 import urlsafe_b64encode

from chordmq.storage.metadata.database import Database

PRODUCER_ID_BLOCK = 1000

_STEPS = (
    """
    CREATE TABLE identity (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        cluster_id TEXT NOT NULL, next_producer_id INTEGER NOT NULL
    ) STRICT
    """,
)


class Identity:
    """The cluster id, made once, and blocks of producer ids that are never given twice."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("identity", _STEPS)
        self.cluster_id = database.run_now(_cluster_id)

    async def take_producer_ids(self) -> range:
        """Reserve a block of producer ids, durably."""
        return await self._database.run(_take_producer_ids)


def _cluster_id(connection: sqlite3.Connection) -> str:
    # Kafka's clients expect 22 characters: a UUID in base 64.
    made = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    connection.execute("INSERT OR IGNORE INTO identity VALUES (1, ?, 0)", (made,))
    return str(connection.execute("SELECT cluster_id FROM identity").fetchone()[0])


def _take_producer_ids(connection: sqlite3.Connection) -> range:
    (end,) = connection.execute(
        "UPDATE identity SET next_producer_id = next_producer_id + ? RETURNING next_producer_id",
        (PRODUCER_ID_BLOCK,),
    ).fetchone()
    return range(end - PRODUCER_ID_BLOCK, end)

"""The newest signed heads of the audit trail, as rows."""

import sqlite3
from contextlib import closing
from pathlib import Path

from chordmq.dataclass import dataclass
from chordmq.storage.metadata.database import Database

HEADS_KEPT = 1000

_STEPS = (
    """
    CREATE TABLE audit_heads (
        seq INTEGER PRIMARY KEY, ts INTEGER NOT NULL, digest TEXT NOT NULL, signature TEXT NOT NULL
    ) STRICT
    """,
)


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One signed head as the database knows it."""

    seq: int
    ts: int
    digest: str
    signature: str


class HeadTable:
    """Heads beside the log that they vouch for; the oldest make room for the newest."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("audit_heads", _STEPS)

    def heads(self) -> list[HeadRow]:
        """Return the heads, oldest first, blocking; for the start."""
        return self._database.run_now(_heads)

    async def add(self, head: HeadRow) -> None:
        """Keep one more head; one with the same number stays, as both cannot be right."""
        row = (head.seq, head.ts, head.digest, head.signature)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO audit_heads VALUES (?, ?, ?, ?)", row)
            connection.execute(
                "DELETE FROM audit_heads WHERE seq NOT IN "
                "(SELECT seq FROM audit_heads ORDER BY ts DESC LIMIT ?)",
                (HEADS_KEPT,),
            )

        await self._database.run(work)


def heads_in(file: Path) -> list[HeadRow]:
    """Return the heads in a database that no node uses, without changing it."""
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            return _heads(connection)
    except sqlite3.Error:  # not there, or from before there was an audit trail
        return []


def _heads(connection: sqlite3.Connection) -> list[HeadRow]:
    rows = connection.execute("SELECT seq, ts, digest, signature FROM audit_heads ORDER BY seq")
    return [HeadRow(*row) for row in rows]

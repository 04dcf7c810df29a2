"""The settings that single groups have of their own, as rows."""

import sqlite3
from collections.abc import Mapping

from chordmq.storage.metadata.database import Database

_STEPS = (
    """
    CREATE TABLE group_settings (
        group_id TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (group_id, name)
    ) STRICT, WITHOUT ROWID
    """,
)


class GroupSettingsTable:
    """The durable settings of groups; each change is on disk when its call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("group_settings", _STEPS)

    def all(self) -> dict[str, dict[str, str]]:
        """Return the settings of every group that has any, blocking; for the start."""
        return self._database.run_now(_all)

    async def set(self, group: str, settings: Mapping[str, str]) -> None:
        """Replace all settings of a group."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM group_settings WHERE group_id = ?", (group,))
            connection.executemany(
                "INSERT INTO group_settings VALUES (?, ?, ?)",
                [(group, name, value) for name, value in settings.items()],
            )

        await self._database.run(work)


def _all(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for group, name, value in connection.execute(
        "SELECT group_id, name, value FROM group_settings"
    ):
        found.setdefault(group, {})[name] = value
    return found

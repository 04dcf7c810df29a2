"""How far back an archived table can be read as it was: Iceberg's own properties say it.

A property that a table does not have is taken from here. Data files are no business of this: those
that a table still names stay, and the others go as they always did.
"""

from contextlib import suppress

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

AGE_MS_MAX = "history.expire.max-snapshot-age-ms"
KEPT_MIN = "history.expire.min-snapshots-to-keep"
PAST = {
    AGE_MS_MAX: str(7 * 24 * 3600 * 1000),
    KEPT_MIN: "100",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Seven days or a hundred snapshots, whichever is more; the last two are for files of metadata."""
DROPPED_MIN = 10
"""Each time is a change of the table, which is not worth while for a few."""


def drop_old(table: Table, now_ms: int) -> int:
    """Drop snapshots that are too old, and what only they name; return how many there were."""
    said = PAST | table.properties
    ordered = sorted(table.snapshots(), key=lambda one: one.timestamp_ms)
    # The newest is what the table is, and all that have a name of their own are wanted.
    count = len(ordered) - max(1, int(said[KEPT_MIN]))
    since_ms = now_ms - int(said[AGE_MS_MAX])
    early = [one for one in ordered[: max(0, count)] if one.timestamp_ms < since_ms]
    named = {ref.snapshot_id for ref in table.refs().values()}
    old = [one for one in early if one.snapshot_id not in named]
    if len(old) < DROPPED_MIN:
        return 0
    # A list of files that a change has replaced never comes back: what the next snapshot does not
    # have, no later one has.
    following = ordered[len(early)]
    needed = _lists(table, [following, *(one for one in early if one.snapshot_id in named)])
    gone = _lists(table, old) - needed
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
    for path in gone:
        with suppress(FileNotFoundError):
            table.io.delete(path)
    return len(old)


def _lists(table: Table, snapshots: list[Snapshot]) -> set[str]:
    """Return the files that say which data files snapshots have."""
    manifests = {one.manifest_path for each in snapshots for one in each.manifests(table.io)}
    return manifests | {one.manifest_list for one in snapshots}

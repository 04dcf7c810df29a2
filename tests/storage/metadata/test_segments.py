"""The segment catalogue: what is saved is loaded, in the order in which it was said."""

from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from threading import Event

from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.segments import (
    CatalogueEntry,
    Checkpoint,
    SegmentCatalogue,
    SegmentEntry,
)

CHECKPOINT = Checkpoint(
    start_offset=3, flushed_segment=10, flushed_position=99, flushed_offset=15, cleaned_offset=4
)
SEGMENT = SegmentEntry(
    base_offset=10,
    next_offset=15,
    size=99,
    max_timestamp=1_700_000_000_000,
    max_timestamp_offset=12,
    created_ms=1_600_000_000_000,
)


def test_a_log_is_known_after_a_restart(tmp_path: Path) -> None:
    """D6: segment metadata is in SQLite."""
    first = replace(SEGMENT, base_offset=0, next_offset=10)
    for _ in range(2):
        database = Database(tmp_path / "meta.db")
        catalogue = SegmentCatalogue(database)
        catalogue.save("t-0", CHECKPOINT, [first, SEGMENT])
        database.close()
    database = Database(tmp_path / "meta.db")
    catalogue = SegmentCatalogue(database)
    assert catalogue.load("t-0") == CatalogueEntry(
        checkpoint=CHECKPOINT, segments={0: first, 10: SEGMENT}
    )
    assert catalogue.load("t-1") is None
    catalogue.drop("t-0", [0])
    entry = catalogue.load("t-0")
    assert entry is not None
    assert list(entry.segments) == [10]
    catalogue.forget("t-0")
    assert catalogue.load("t-0") is None
    database.close()


def test_changes_that_wait_together_are_written_together(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    catalogue = SegmentCatalogue(database)
    released = Event()
    database.submit(lambda _: released.wait())
    written = {catalogue.save(f"t-{number}", CHECKPOINT, [SEGMENT]) for number in range(200)}
    assert len(written) == 1
    released.set()
    wait(written)
    assert catalogue.load("t-0") == catalogue.load("t-199") is not None
    database.close()

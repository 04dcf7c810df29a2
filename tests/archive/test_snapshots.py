"""The past of an archived table, read by pyiceberg as any other program would."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from chordmq.archive.snapshots import AGE_MS_MAX, DROPPED_MIN, KEPT_MIN
from chordmq.archive.table import NAMESPACE, Archive, open_catalog, table_name
from tests.archive.test_table import TOPIC, a_file

CHANGES, KEPT = 14, 3
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def catalog(archive: Archive) -> Iterator[SqlCatalog]:
    opened = open_catalog(archive.directory)
    yield opened
    opened.close()


@pytest.fixture
def table(archive: Archive, catalog: SqlCatalog) -> Table:
    """Give a table that has been changed often, and once by joining files."""
    for number in range(CHANGES - 1):
        archive.add(TOPIC, [a_file(archive, number * 2, number * 2 + 2)], {0: number * 2 + 2})
        if number == 0:
            opened = load(catalog)
            with opened.transaction() as change:
                change.set_properties({AGE_MS_MAX: str(DAY_MS), KEPT_MIN: str(KEPT)})
    old = archive.files(TOPIC).paths[:2]
    archive.replace(TOPIC, old, [a_file(archive, 0, 4)])
    return load(catalog)


def load(catalog: SqlCatalog) -> Table:
    return catalog.load_table(f"{NAMESPACE}.{table_name(TOPIC)}")


def metadata(archive: Archive) -> set[Path]:
    return set((archive.directory / "tables" / TOPIC).rglob("*.avro"))


def later_ms(table: Table) -> int:
    """Return a time when all that the table was is too old."""
    return max(one.timestamp_ms for one in table.snapshots()) + DAY_MS + 1


def test_a_new_table_keeps_a_week_or_a_hundred_snapshots(
    archive: Archive, catalog: SqlCatalog
) -> None:
    archive.add(TOPIC, [a_file(archive, 0, 2)], {0: 2})
    properties = load(catalog).properties
    assert (properties[AGE_MS_MAX], properties[KEPT_MIN]) == (str(7 * DAY_MS), "100")


def test_the_newest_snapshots_stay_however_old_and_can_be_read(
    archive: Archive, catalog: SqlCatalog, table: Table
) -> None:
    """P5: time travel within what is kept, and every archived row after."""
    before = {one.snapshot_id: table.scan(snapshot_id=one.snapshot_id).to_arrow()
              for one in table.snapshots()}  # fmt: skip
    lists = metadata(archive)
    assert archive.forget(TOPIC, later_ms(table)) == CHANGES - KEPT
    kept = load(catalog)
    assert [one.snapshot_id for one in kept.snapshots()] == [*before][-KEPT:]
    for one in kept.snapshots():
        assert kept.scan(snapshot_id=one.snapshot_id).to_arrow().equals(before[one.snapshot_id])
    assert sorted(kept.scan().to_arrow()["offset"].to_pylist()) == list(range(2 * (CHANGES - 1)))
    assert archive.ends(TOPIC) == {0: 2 * (CHANGES - 1)}
    gone = lists - metadata(archive)
    assert gone == {Path(one.manifest_list.removeprefix("file://"))
                    for one in table.snapshots()[:-KEPT]}  # fmt: skip


def test_lists_that_no_snapshot_has_any_more_are_removed(
    archive: Archive, catalog: SqlCatalog, table: Table
) -> None:
    for number in range(CHANGES, CHANGES + KEPT + DROPPED_MIN):
        archive.add(TOPIC, [a_file(archive, number * 2, number * 2 + 2)], {0: number * 2 + 2})
    archive.forget(TOPIC, later_ms(load(catalog)))
    kept = load(catalog)
    named = {one.manifest_path for each in kept.snapshots() for one in each.manifests(kept.io)}
    named |= {one.manifest_list for one in kept.snapshots()}
    assert metadata(archive) == {Path(one.removeprefix("file://")) for one in named}


def test_young_and_named_snapshots_stay(
    archive: Archive, catalog: SqlCatalog, table: Table
) -> None:
    assert archive.forget(TOPIC, later_ms(table) - DAY_MS) == 0
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "audit").commit()
    assert archive.forget(TOPIC, later_ms(table)) == CHANGES - KEPT - 1
    kept = load(catalog)
    assert kept.snapshots()[0].snapshot_id == first
    assert kept.scan(snapshot_id=first).to_arrow()["offset"].to_pylist() == [0, 1]


def test_a_topic_without_archive_has_no_past(archive: Archive) -> None:
    assert archive.forget("nothing", 0) == 0

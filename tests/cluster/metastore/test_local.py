"""What is special about the store of a node alone: it lies in a file of the node."""

from pathlib import Path

import pytest

from chordmq.clock import ManualClock, SystemClock
from chordmq.cluster.metastore import local
from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.store import Delete, HistoryLost, LeaseLost, Put
from chordmq.storage.metadata.database import Database


async def test_all_but_leases_is_there_after_a_restart(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    store = LocalStore(database, SystemClock())
    revision = await store.commit([], [Put("a", b"1")])
    await store.commit([], [Put("live", b"", await store.grant(60))])
    database.close()

    database = Database(tmp_path / "meta.db")
    again = LocalStore(database, SystemClock())

    assert [(entry.key, entry.revision) for entry in again.range_now("").entries] == [
        ("a", revision)
    ]
    assert await again.commit([], [Put("b", b"")]) > revision + 1
    database.close()


async def test_a_watch_of_what_was_before_the_start_must_read_again(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    await LocalStore(database, SystemClock()).commit([], [Put("a", b"1")])
    again = LocalStore(database, SystemClock())

    with pytest.raises(HistoryLost):
        await anext(aiter(again.watch("", 0)))
    database.close()


async def test_a_watch_that_falls_far_behind_must_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "EVENTS_KEPT", 2)
    database = Database(tmp_path / "meta.db")
    store = LocalStore(database, SystemClock())
    revision = await store.commit([], [Put("a", b"1")])
    for value in (b"2", b"3", b"4"):
        await store.commit([], [Put("a", value)])

    with pytest.raises(HistoryLost):
        await anext(aiter(store.watch("", revision)))
    database.close()


async def test_a_lease_ends_when_its_time_is_up_though_nobody_looks(tmp_path: Path) -> None:
    database, clock = Database(tmp_path / "meta.db"), ManualClock()
    store = LocalStore(database, clock)
    lease = await store.grant(10)
    await store.commit([], [Put("live", b"", lease)])
    clock.advance(9_999)
    assert await store.get("live") is not None
    assert await store.keep(lease) == 10
    clock.advance(10_001)

    assert await store.get("live") is None
    with pytest.raises(LeaseLost):
        await store.keep(lease)
    database.close()


async def test_a_commit_of_nothing_takes_no_revision(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    store = LocalStore(database, SystemClock())
    revision = await store.commit([], [Put("a", b"1")])

    assert await store.commit([], [Delete("b")]) == revision
    database.close()


async def test_a_refused_commit_leaves_the_file_usable(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    store = LocalStore(database, SystemClock())
    with pytest.raises(AssertionError, match="twice"):
        await store.commit([], [Put("a", b"1"), Put("a", b"2")])

    assert await store.get("a") is None
    assert await store.commit([], [Put("a", b"3")])
    database.close()

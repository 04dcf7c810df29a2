"""What a node knows of the store, however late or lossy its watch is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chordmq.cluster import image as module
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import (
    Delete,
    DeleteUnder,
    Entry,
    Event,
    Put,
    StoreConflict,
    absent,
)
from chordmq.errors import UnknownOutcome
from tests.cluster.unreliable_store import UnreliableStore

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_DELAY_S", 0.01)
    monkeypatch.setattr(module, "CHECK_INTERVAL_S", 0.05)
    monkeypatch.setattr(module, "WATCH_DELAY_MAX_S", 0.01)


@asynccontextmanager
async def following(store: UnreliableStore) -> AsyncIterator[Image]:
    image = await Image.load(store)
    task = asyncio.ensure_future(image.run())
    try:
        yield image
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_known(image: Image, key: str, value: bytes | None) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            entry = image.get(key)
            if (entry.value if entry else None) == value:
                return
            await asyncio.sleep(0.005)


async def test_what_one_node_changes_the_others_know_soon(shared_store: UnreliableStore) -> None:
    async with following(shared_store) as mine, following(shared_store) as yours:
        await mine.commit([], [Put("topics/a", b"1"), Put("topics/b", b"2")])
        assert [entry.value for entry in mine.under("topics/")] == [b"1", b"2"]
        await until_known(yours, "topics/b", b"2")

        await yours.commit([], [Delete("topics/a"), DeleteUnder("topics/b")])

        assert yours.under("topics/") == []
        await until_known(mine, "topics/b", None)


async def test_a_cluster_is_founded_once(shared_store: UnreliableStore) -> None:
    first, second = await asyncio.gather(Image.load(shared_store), Image.load(shared_store))

    for key in ("cluster", "secret"):
        entry = first.get(key)
        assert entry is not None
        assert entry == second.get(key)


async def test_a_listener_is_told_each_change_once_and_in_order(
    shared_store: UnreliableStore,
) -> None:
    told: list[Event] = []
    async with following(shared_store) as mine, following(shared_store) as yours:
        mine.listen("topics", told.extend)
        first = await mine.commit([], [Put("topics/a", b"1"), Put("users/u", b"")])
        await until_known(yours, "topics/a", b"1")
        second = await yours.commit([], [Put("topics/a", b"2")])
        await until_known(mine, "topics/a", b"2")
        third = await mine.commit([], [Delete("topics/a")])
        await mine.commit([], [Put("users/u", b"2")])
        await until_known(yours, "users/u", b"2")
        await asyncio.sleep(0.05)

    assert [event.revision for event in told] == [first, second, third]
    assert [event.entry and event.entry.value for event in told] == [b"1", b"2", None]


async def test_events_that_a_watch_loses_are_made_up_for(shared_store: UnreliableStore) -> None:
    """Watches are hints (etcd #15271 and others): the store itself is asked now and then."""
    shared_store.tells = lambda event: not event.key.startswith("topics/")
    told: list[str] = []
    async with following(shared_store) as mine:
        mine.listen("topics", lambda events: told.extend(event.key for event in events))
        await shared_store.store.commit([], [Put("topics/a", b"1"), Put("topics/b", b"1")])
        await until_known(mine, "topics/a", b"1")
        await shared_store.store.commit([], [Delete("topics/b")])
        await until_known(mine, "topics/b", None)

    assert sorted(told) == ["topics/a", "topics/b", "topics/b"]


async def test_a_watch_that_hangs_is_begun_anew(shared_store: UnreliableStore) -> None:
    """A member of the store that stands still tells nothing, and does not say so."""
    async with following(shared_store) as mine:
        shared_store.tells = lambda event: False
        await shared_store.store.commit([], [Put("topics/a", b"1")])
        await until_known(mine, "topics/a", b"1")
        begun = shared_store.watches
        shared_store.tells = lambda event: True
        assert begun >= 1
        async with asyncio.timeout(PATIENCE_S):
            while shared_store.watches < 2:  # noqa: ASYNC110 - what changes tells nobody
                await asyncio.sleep(0.005)
        revision = await shared_store.store.commit([], [Put("topics/a", b"2")])
        await until_known(mine, "topics/a", b"2")
        assert mine.revision >= revision


async def test_others_who_write_to_the_same_etcd_cause_no_reading(
    shared_store: UnreliableStore,
) -> None:
    async with following(shared_store) as mine:
        shared_store.tells = lambda event: event.key != "elsewhere"
        revision = await shared_store.store.commit([], [Put("elsewhere", b"")])
        await shared_store.store.commit([], [Delete("elsewhere")])
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if mine.revision > revision:
                    break
                await asyncio.sleep(0.01)

    assert shared_store.watches == 1


async def test_events_that_come_late_do_not_undo_newer_ones(shared_store: UnreliableStore) -> None:
    image = await Image.load(shared_store)
    first = await image.commit([], [Put("topics/a", b"1"), Put("topics/b", b"1")])
    await image.commit([], [Put("topics/a", b"2"), Delete("topics/b")])

    image._apply(
        Event(key, first, Entry(key, b"1", first, first)) for key in ("topics/b", "topics/a")
    )

    assert [(entry.key, entry.value) for entry in image.under("topics/")] == [("topics/a", b"2")]


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_an_unknown_outcome_is_found_out(shared_store: UnreliableStore, fault: str) -> None:
    image = await Image.load(shared_store)
    shared_store.commit_faults = [fault, "lost", "unanswered"]

    revision = await image.commit([absent("a")], [Put("a", b"1")])

    entry = await shared_store.get("a")
    assert entry is not None
    assert (entry.value, entry.revision) == (b"1", revision)
    assert image.get("a") == entry


async def test_an_unknown_outcome_that_another_has_overtaken_is_a_conflict(
    shared_store: UnreliableStore,
) -> None:
    image = await Image.load(shared_store)
    shared_store.commit_faults = ["lost"]
    committing = asyncio.ensure_future(image.commit([absent("a")], [Put("a", b"mine")]))
    await asyncio.sleep(0)
    await shared_store.store.commit([], [Put("a", b"yours")])

    with pytest.raises(StoreConflict):
        await committing


async def test_an_outcome_that_stays_unknown_is_told(
    shared_store: UnreliableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_ATTEMPTS", 3)
    image = await Image.load(shared_store)
    shared_store.commit_faults = ["lost"] * 4

    with pytest.raises(UnknownOutcome):
        await image.commit([absent("a")], [Put("a", b"1")])


async def test_a_deletion_with_an_unknown_outcome_is_found_out(
    shared_store: UnreliableStore,
) -> None:
    image = await Image.load(shared_store)
    await image.commit([], [Put("live/1", b""), Put("live/10", b"")])
    shared_store.commit_faults = ["unanswered"]

    await image.commit([], [Delete("live/1")])

    assert [entry.key for entry in image.under("live/")] == ["live/10"]


async def test_a_store_that_comes_back_is_followed_again(shared_store: UnreliableStore) -> None:
    async with following(shared_store) as image:
        shared_store.is_away = True
        await asyncio.sleep(0.1)
        shared_store.is_away = False
        await shared_store.commit([], [Put("topics/a", b"1")])
        await until_known(image, "topics/a", b"1")

"""What every back end of the store promises."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cluster.metastore.store import (
    Compare,
    Delete,
    DeleteUnder,
    Entry,
    Event,
    LeaseLost,
    MetaStore,
    Outline,
    Put,
    StoreConflict,
    absent,
    present,
    unchanged,
)

PATIENCE_S = 60.0


async def test_what_was_put_is_found_with_its_revision(store: MetaStore) -> None:
    revision = await store.commit([], [Put("a", b"1"), Put("b", b"")])

    assert await store.get("a") == Entry("a", b"1", revision, revision)
    assert await store.get("b") == Entry("b", b"", revision, revision)
    assert await store.get("c") is None


async def test_a_key_keeps_the_revision_that_made_it(store: MetaStore) -> None:
    made = await store.commit([], [Put("a", b"1")])
    written = await store.commit([], [Put("a", b"2")])

    assert await store.get("a") == Entry("a", b"2", written, made)
    assert written > made


async def test_a_range_is_sorted_and_ends_with_its_prefix(store: MetaStore) -> None:
    await store.commit([], [Put(key, b"") for key in ("p/b", "p/a", "p", "q", "p0")])

    snapshot = await store.range("p/")

    assert [entry.key for entry in snapshot.entries] == ["p/a", "p/b"]


async def test_a_snapshot_is_as_of_the_newest_commit(store: MetaStore) -> None:
    revision = await store.commit([], [Put("elsewhere", b"")])

    assert (await store.range("nothing/")).revision >= revision


async def test_an_outline_changes_with_every_entry(store: MetaStore) -> None:
    assert await store.outline("p/") == Outline(0, 0)
    first = await store.commit([], [Put("p/a", b""), Put("p/b", b"")])
    await store.commit([], [Put("q", b"")])
    assert await store.outline("p/") == Outline(2, first)

    second = await store.commit([], [Put("p/a", b"2"), Delete("p/b")])

    assert await store.outline("p/") == Outline(1, second)


@pytest.mark.parametrize(
    "compare",
    [absent("a"), present("b"), Compare("a", revision=1), Compare("a", created=1)],
    ids=str,
)
async def test_a_commit_whose_compare_fails_changes_nothing(
    store: MetaStore, compare: Compare
) -> None:
    await store.commit([], [Put("x", b"")])
    await store.commit([], [Put("a", b"1")])

    with pytest.raises(StoreConflict):
        await store.commit([compare], [Put("a", b"2"), Put("c", b"")])

    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"1"
    assert await store.get("c") is None


async def test_a_commit_whose_compares_hold_is_done(store: MetaStore) -> None:
    made = await store.commit([absent("a")], [Put("a", b"1")])
    written = await store.commit(
        [Compare("a", revision=made, created=made), present("a"), absent("b")], [Put("a", b"2")]
    )
    entry = await store.get("a")

    await store.commit([unchanged("a", entry), unchanged("b", None)], [Delete("a")])

    assert written > made
    assert await store.get("a") is None


async def test_of_many_who_write_at_once_one_wins(store: MetaStore) -> None:
    seen = await store.commit([], [Put("a", b"")])

    results = await asyncio.gather(
        *(
            store.commit([Compare("a", revision=seen)], [Put("a", b"%d" % number)])
            for number in range(8)
        ),
        return_exceptions=True,
    )

    (winner,) = [one for one in results if isinstance(one, int)]
    assert sum(isinstance(one, StoreConflict) for one in results) == 7
    entry = await store.get("a")
    assert entry is not None
    assert entry.revision == winner


async def test_all_keys_under_a_prefix_go_at_once(store: MetaStore) -> None:
    await store.commit([], [Put("t/1", b""), Put("t/2", b""), Put("u", b"")])

    await store.commit([], [DeleteUnder("t/"), Put("v", b"")])

    assert [entry.key for entry in (await store.range("")).entries] == ["u", "v"]


async def test_a_commit_takes_as_many_operations_as_promised(store: MetaStore) -> None:
    count = min(store.operations_max, 1000)
    keys = [f"k/{number}" for number in range(count)]

    await store.commit([absent(key) for key in keys], [Put(key, b"") for key in keys])

    assert len((await store.range("k/")).entries) == count


async def test_a_watch_tells_what_changes_in_order(store: MetaStore) -> None:
    start = await store.commit([], [Put("p/old", b"")])
    watch = store.watch("p/", start)
    first = await store.commit([], [Put("p/a", b"1"), Put("elsewhere", b"")])
    second = await store.commit([], [Put("p/a", b"2"), Delete("p/old")])

    events = await take(watch, 3)

    assert events[0] == Event("p/a", first, Entry("p/a", b"1", first, first))
    assert sorted(events[1:], key=lambda event: event.key) == [
        Event("p/a", second, Entry("p/a", b"2", second, first)),
        Event("p/old", second, None),
    ]


async def test_a_watch_goes_on_while_nothing_happens(store: MetaStore) -> None:
    start = await store.commit([], [Put("x", b"")])
    taking = asyncio.ensure_future(take(store.watch("p/", start), 1))
    await store.commit([], [Put("q", b"")])

    revision = await store.commit([], [Put("p/a", b"")])

    assert (await taking)[0].revision == revision


async def test_what_is_under_a_lease_goes_with_it(store: MetaStore) -> None:
    lease = await store.grant(60)
    put = await store.commit([], [Put("live/1", b"", lease), Put("stays", b"")])
    entry = await store.get("live/1")
    assert entry is not None
    assert entry.lease == lease
    watch = store.watch("live/", put)

    await store.revoke(lease)

    assert (await take(watch, 1))[0].entry is None
    assert await store.get("live/1") is None
    assert await store.get("stays") is not None


async def test_a_lease_that_nobody_keeps_ends(store: MetaStore) -> None:
    lease = await store.grant(3)
    put = await store.commit([], [Put("live/1", b"", lease)])

    (event,) = await take(store.watch("live/", put), 1)

    assert (event.key, event.entry) == ("live/1", None)
    with pytest.raises(LeaseLost):
        await store.keep(lease)


async def test_a_lease_lasts_while_it_is_kept(store: MetaStore) -> None:
    lease = await store.grant(60)

    assert 1 <= await store.keep(lease) <= 60
    await store.commit([], [Put("live/1", b"", lease)])
    assert await store.get("live/1") is not None


async def test_nothing_can_be_put_under_a_lease_that_has_ended(store: MetaStore) -> None:
    lease = await store.grant(60)
    await store.revoke(lease)
    await store.revoke(lease)

    with pytest.raises(LeaseLost):
        await store.commit([], [Put("live/1", b"", lease)])


def test_a_compare_without_a_condition_always_holds() -> None:
    assert Compare("a").holds(None)


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_compare_of_revisions_holds_for_that_entry_only(mine: int, other: int) -> None:
    entry = Entry("a", b"", other, created=1)

    assert Compare("a", revision=mine).holds(entry) == (mine == other)
    assert not Compare("a", revision=mine).holds(None)
    assert unchanged("a", entry).holds(entry)
    assert not absent("a").holds(entry)
    assert present("a").holds(entry)


async def take(watch: AsyncGenerator[list[Event], None], count: int) -> list[Event]:
    """Return so many events of a watch, and end it."""
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(watch):
        async for news in watch:
            events += news
            if len(events) >= count:
                break
    return events

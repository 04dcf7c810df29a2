"""The store against a real etcd whose members are killed, paused and told to forget."""

import asyncio
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trustme

from chordmq.cluster.metastore.etcd import EtcdStore
from chordmq.cluster.metastore.gateway import GatewaySettings
from chordmq.cluster.metastore.store import Compare, HistoryLost, Put, StoreConflict
from chordmq.cluster.settings import ClusterSettings
from chordmq.errors import StoreUnavailable, UnknownOutcome
from tests.cluster.etcd_members import EtcdMembers

PATIENCE_S = 60.0


@pytest.fixture
def three(tmp_path: Path) -> Iterator[EtcdMembers]:
    with EtcdMembers(tmp_path / "etcd", count=3) as members:
        yield members


def store_at(*endpoints: str, timeout_s: float = PATIENCE_S) -> EtcdStore:
    return EtcdStore(GatewaySettings(endpoints=endpoints, timeout_s=timeout_s), "/c/test/")


async def test_each_killed_member_is_survived_while_a_majority_lives(three: EtcdMembers) -> None:
    """A9: a compare-and-set counter counts exactly what was acknowledged or is unknown."""
    store = store_at(*three.endpoints)
    entry_revision = await store.commit([], [Put("n", b"0")])
    sure = unknown = 0
    for member in range(3):
        three.kill9(member)
        entry_revision, counted, unsure = await count_on(store, entry_revision, 10)
        sure, unknown = sure + counted, unknown + unsure
        await asyncio.to_thread(three.start, member)

    entry = await store.get("n")

    assert entry is not None
    assert sure == 30
    assert sure <= int(entry.value) <= sure + unknown
    await store.close()


async def count_on(store: EtcdStore, revision: int, times: int) -> tuple[int, int, int]:
    """Add to the counter so many times; return its revision, and how often that is known."""
    sure = unknown = 0
    deadline = time.monotonic() + PATIENCE_S
    while sure < times:
        assert time.monotonic() < deadline
        try:
            entry = await store.get("n")
            assert entry is not None
            value = b"%d" % (int(entry.value) + 1)
            await store.commit([Compare("n", revision=entry.revision)], [Put("n", value)])
            sure += 1
        except UnknownOutcome:
            unknown += 1
        except StoreUnavailable:
            await asyncio.sleep(0.05)
    return revision, sure, unknown


async def test_a_time_out_is_an_unknown_outcome_and_a_compare_makes_it_safe_to_repeat(
    etcd: EtcdMembers,
) -> None:
    store = store_at(*etcd.endpoints, timeout_s=PATIENCE_S / 3)
    hasty = store_at(*etcd.endpoints, timeout_s=0.3)
    seen = await store.commit([], [Put("a", b"1")])
    again = [Compare("a", revision=seen)], [Put("a", b"2")]
    await connected(hasty)
    etcd.pause(0)
    try:
        with pytest.raises(UnknownOutcome):
            await hasty.commit(*again)
        with pytest.raises(StoreUnavailable):
            await hasty.get("a")
    finally:
        etcd.resume(0)
        await hasty.close()

    await commit_until_known(store, again)
    entry = await store.get("a")

    assert entry is not None
    assert entry.value == b"2"
    assert entry.revision > seen
    await store.close()


async def connected(store: EtcdStore) -> None:
    """Return when a store has a connection to send its next call on."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            await store.get("a")
            return
        except StoreUnavailable:  # a busy machine
            continue
    raise AssertionError("etcd did not answer")


async def commit_until_known(store: EtcdStore, call: tuple[list[Compare], list[Put]]) -> None:
    """Repeat a commit, which compares what it replaces, until it is known to be done."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            await store.commit(*call)
            return
        except StoreConflict:  # one of those before has had its effect
            return
        except UnknownOutcome:  # etcd has no leader yet, so soon after a pause
            continue
    raise AssertionError("nothing became of the commit")


async def test_an_endpoint_that_is_not_there_is_passed_over(etcd: EtcdMembers) -> None:
    store = store_at("http://127.0.0.1:1", *etcd.endpoints)

    assert await store.commit([], [Put("b", b"1")]) > 0
    await store.close()


async def test_without_any_endpoint_nothing_was_changed() -> None:
    store = store_at("http://127.0.0.1:1")

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await store.commit([], [Put("b", b"1")])
    with pytest.raises(StoreUnavailable):
        await store.get("b")


async def test_a_watch_of_a_history_that_etcd_has_thrown_away_must_read_again(
    etcd: EtcdMembers,
) -> None:
    store = store_at(*etcd.endpoints)
    first = await store.commit([], [Put("c", b"1")])
    newest = await store.commit([], [Put("c", b"2")])
    await asyncio.to_thread(
        urllib.request.urlopen,
        f"{etcd.endpoints[0]}/v3/kv/compaction",
        msgspec.json.encode({"revision": str(newest)}),
    )

    with pytest.raises(HistoryLost):
        await anext(aiter(store.watch("c", first - 1)))
    await store.close()


async def test_a_watch_ends_with_its_member(tmp_path: Path) -> None:
    with EtcdMembers(tmp_path / "etcd") as members:
        store = store_at(*members.endpoints)
        revision = await store.commit([], [Put("d", b"1")])
        watch = aiter(store.watch("", revision))
        waiting = asyncio.ensure_future(anext(watch))
        await store.commit([], [Put("d", b"2")])
        assert (await waiting)[0].key == "d"
        members.kill9(0)

        with pytest.raises((StoreUnavailable, StopAsyncIteration)):
            await asyncio.wait_for(anext(watch), PATIENCE_S)


async def test_clusters_that_share_an_etcd_do_not_see_each_other(etcd: EtcdMembers) -> None:
    mine = EtcdStore(GatewaySettings(endpoints=etcd.endpoints, timeout_s=PATIENCE_S), "/c/mine/")
    yours = EtcdStore(GatewaySettings(endpoints=etcd.endpoints, timeout_s=PATIENCE_S), "/c/yours/")

    await mine.commit([], [Put("a", b"mine")])

    assert (await yours.range("")).entries == []
    await mine.close()
    await yours.close()


async def test_a_password_is_shown_where_etcd_wants_one(tmp_path: Path) -> None:
    with EtcdMembers(tmp_path / "etcd") as members:

        def tell(path: str, body: dict[str, str]) -> None:
            address = f"{members.endpoints[0]}/v3/auth/{path}"
            urllib.request.urlopen(address, msgspec.json.encode(body))

        tell("role/add", {"name": "root"})
        tell("user/add", {"name": "root", "password": "secret"})
        tell("user/grant", {"user": "root", "role": "root"})
        tell("enable", {})
        settings = GatewaySettings(
            endpoints=members.endpoints, user="root", password="secret", timeout_s=PATIENCE_S
        )
        store = EtcdStore(settings, "/c/test/")

        await store.commit([], [Put("a", b"1")])

        assert (await store.range("")).entries[0].value == b"1"
        await store.close()


async def test_etcd_is_spoken_to_over_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("node-1")
    for name, held in (("server", server), ("client", client)):
        held.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        held.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    tls.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    options = [
        "--cert-file", str(tmp_path / "server.pem"), "--key-file", str(tmp_path / "server.key"),
        "--client-cert-auth", "--trusted-ca-file", str(tmp_path / "ca.pem"),
    ]  # fmt: skip
    with EtcdMembers(tmp_path / "etcd", options=options, tls=tls) as members:
        settings = ClusterSettings(
            store="etcd",
            endpoints=",".join(members.endpoints),
            ca=str(tmp_path / "ca.pem"),
            certificate=str(tmp_path / "client.pem"),
            key=str(tmp_path / "client.key"),
        )
        settings.check()
        store = settings.open()
        await store.commit([], [Put("a", b"1")])
        stranger = replace(settings, certificate="", key="").open()

        assert (await store.range("")).entries[0].value == b"1"
        with pytest.raises((StoreUnavailable, UnknownOutcome)):
            await stranger.commit([], [Put("a", b"2")])
        await store.close()


async def test_an_etcd_without_room_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """NOSPACE: reads go on, and so does whoever needs no change."""
    with EtcdMembers(tmp_path / "etcd", options=["--quota-backend-bytes", "300000"]) as members:
        store = store_at(*members.endpoints)
        first = await store.commit([], [Put("a", b"1")])
        with pytest.raises(StoreUnavailable, match="space"):
            await fill(store)

        entry = await store.get("a")

        assert entry is not None
        assert entry.revision == first
        with pytest.raises(StoreUnavailable, match="space"):
            await store.commit([], [Put("a", b"2")])
        await store.close()


async def fill(store: EtcdStore) -> None:
    for number in range(100):
        await store.commit([], [Put(f"fill/{number}", bytes(20_000))])


async def test_a_watch_goes_on_while_etcd_forgets_its_history(etcd: EtcdMembers) -> None:
    store = EtcdStore(
        GatewaySettings(endpoints=etcd.endpoints, timeout_s=PATIENCE_S), "/c/forgetful/"
    )
    seen: list[bytes] = []
    try:
        start = await store.commit([], [Put("n", b"0")])
        async with asyncio.timeout(PATIENCE_S), aclosing(store.watch("n", start)) as watch:
            for number in range(50):
                newest = await store.commit([], [Put("n", b"%d" % number)])
                # What is forgotten before the watch has come to it is lost to it.
                seen.extend(event.entry.value for event in await anext(watch) if event.entry)
                if number % 10 == 9:
                    await asyncio.to_thread(forget, etcd.endpoints[0], newest)
    finally:
        await store.close()

    assert seen == [b"%d" % number for number in range(50)]


def forget(endpoint: str, revision: int) -> None:
    """Have etcd drop its history before a revision."""
    request = msgspec.json.encode({"revision": str(revision)})
    with urllib.request.urlopen(f"{endpoint}/v3/kv/compaction", request):
        return

"""E7: what every driver promises, on the real server behind it.

The same tests run on ChordMQ, Redis, RabbitMQ and Apache Kafka.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from chordmq.clock import SystemClock
from chordmq.drivers.adapter import (
    ClientType,
    Delivery,
    Message,
    MessageBrokerAdapter,
    Subscription,
)
from chordmq.drivers.addresses import open_driver
from chordmq.drivers.publishing import Publishing
from tests.drivers.reading import WAIT_S, Seen, numbered, subscribing, taken, texts
from tests.drivers.servers import OTHERS, SERVERS, Server

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def starter() -> Iterator[ThreadPoolExecutor]:
    """Give the thread that starts servers: they end with it, so that none is left behind."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture(scope="module", params=["chordmq", *OTHERS])
def server(
    request: pytest.FixtureRequest,
    starter: ThreadPoolExecutor,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """Give a running broker."""
    running = SERVERS[request.param](tmp_path_factory.mktemp(request.param) / "server")
    try:
        starter.submit(running.start).result()
        yield running
    finally:
        running.close()


@pytest.fixture
async def driver(server: Server) -> AsyncIterator[MessageBrokerAdapter]:
    """Give a driver of the broker."""
    async with open_driver(server.address) as opened:
        yield opened


async def test_a_message_comes_as_it_was_published(driver: MessageBrokerAdapter, name: str) -> None:
    """E7: name, key, value, headers, time and id, and a value that is none."""
    whole = Message(
        name=f"{name}/devices/d.7/telemetry",
        value=b"\x00\xff",
        key=b"k\x01",
        headers=(("binary", b"\x00\xff"), ("one", b"1")),
        timestamp_ms=1_700_000_000_000,
        id=f"{name}-whole",
    )
    bare = Message(name=f"{name}/devices/d8", value=None, key=b"d8", id=f"{name}-bare")
    async with driver.subscribed(Subscription(filter=f"{name}/#", index=f"{name}-i")) as inbox:
        await driver.publish([whole])
        await driver.publish([bare])
        got = await taken(inbox, 2)
        await inbox.accept(got)
    by_id = {one.message.id: one.message for one in got}
    come = by_id[whole.id]
    assert replace(come, headers=tuple(sorted(come.headers))) == whole
    assert by_id[bare.id].value is None
    assert by_id[bare.id].name == bare.name


async def test_a_filter_gets_what_it_matches(driver: MessageBrokerAdapter, name: str) -> None:
    """E2, E7: `+` is one level, `#` all that follow; what lies between is not delivered."""
    wanted = Subscription(filter=f"{name}/devices/+/telemetry/#", index=f"{name}-i")
    async with driver.subscribed(wanted) as inbox:
        ends = (
            "d1/telemetry/heat",
            "d1/status",
            "d2/telemetry",
            "d2/x/telemetry",
            "d3/telemetry/a/b",
        )
        for end in ends:
            await driver.publish([Message(name=f"{name}/devices/{end}", value=end.encode())])
        await driver.publish([Message(name=f"{name}/other/d1/telemetry/x", value=b"no")])
        await driver.publish([Message(name=f"{name}/devices/d9/telemetry", value=b"last")])
        got = await taken(inbox, 4)
        await inbox.accept(got)
    assert sorted(texts(got)) == ["d1/telemetry/heat", "d2/telemetry", "d3/telemetry/a/b", "last"]


async def test_each_index_of_its_own_gets_all_and_goes_on_where_it_was(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """A3, A5, E7: two readers get everything; one that was away misses nothing."""
    one, other = (Subscription(filter=f"{name}/a/#", index=f"{name}-{n}") for n in "12")
    async with driver.subscribed(one) as inbox, driver.subscribed(other) as second:
        await driver.publish(numbered(f"{name}/a/k", range(10)))
        first_got, second_got = await taken(inbox, 10), await taken(second, 10)
        await inbox.accept(first_got)
        await second.accept(second_got)
    assert texts(first_got) == texts(second_got) == [str(n) for n in range(10)]
    await driver.publish(numbered(f"{name}/a/k", range(10, 20)))
    async with driver.subscribed(one) as inbox:
        got = await taken(inbox, 10)
        await inbox.accept(got)
    assert texts(got) == [str(n) for n in range(10, 20)]


async def test_readers_that_share_an_index_get_each_message_once(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """A3, E7: what one has accepted, the other does not get."""
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-s", is_shared=True, credit=10)
    got = Seen()

    async def read() -> None:
        async with driver.subscribed(wanted) as inbox:
            opened.release()
            while True:
                found = await inbox.take(1.0)
                await inbox.accept(found)
                got.add(texts(found))

    opened = asyncio.Semaphore(0)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(read()) for _ in range(2)]
        for _ in readers:
            await opened.acquire()
        for number in range(200):
            await driver.publish(numbered(f"{name}/a/k{number % 8}", range(number, number + 1)))
        await got.wait(200)
        for reader in readers:
            reader.cancel()
    # Kafka's groups may move while members come; then a message comes again, with its own id.
    assert set(got.values) == {str(n) for n in range(200)}


async def test_messages_of_a_key_stay_in_order(driver: MessageBrokerAdapter, name: str) -> None:
    """E2, E7: what belongs to one device comes in the order of publication."""
    async with driver.subscribed(Subscription(filter=f"{name}/a/#", index=f"{name}-i")) as inbox:
        for start in range(0, 500, 100):
            await driver.publish(
                [
                    Message(name=f"{name}/a/d{n % 5}", value=b"%d" % n)
                    for n in range(start, start + 100)
                ]
            )
        got = await taken(inbox, 500)
        await inbox.accept(got)
    for device in range(5):
        of_it = [one for one in got if one.message.name.endswith(f"d{device}")]
        assert texts(of_it) == [str(n) for n in range(device, 500, 5)]


async def test_what_is_given_back_comes_again(driver: MessageBrokerAdapter, name: str) -> None:
    """E7: a message is delivered until somebody accepts it."""
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i")
    async with driver.subscribed(wanted) as inbox:
        await driver.publish(numbered(f"{name}/a/k", range(3)))
        first, *rest = await taken(inbox, 3)
        await inbox.accept(rest)
        await inbox.release([first])
        (again,) = await taken(inbox, 1)
        assert again.message.id == first.message.id
    async with driver.subscribed(wanted) as inbox:
        found = await taken(inbox, 1)
        # A log goes on before the first that is not done: what came after it comes again, too.
        assert found[0].message.id == first.message.id
        await inbox.accept(found)


async def test_who_shares_gets_what_another_did_not_accept(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """E7: the messages of a reader that goes are those of the others."""
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-s", is_shared=True)
    async with driver.subscribed(wanted) as inbox:
        await driver.publish(numbered(f"{name}/a/k", range(5)))
        assert sorted(texts(await taken(inbox, 5))) == list("01234")
    async with driver.subscribed(wanted) as inbox:
        got = await taken(inbox, 5)
        await inbox.accept(got)
        assert sorted(texts(got)) == list("01234")


async def test_no_more_is_handed_out_than_there_is_credit(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """E6, E7: a slow reader is not flooded; the broker keeps the rest."""
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i", credit=10)
    got: list[Delivery] = []
    async with driver.subscribed(wanted) as inbox:
        for start in range(0, 40, 5):
            await driver.publish(numbered(f"{name}/a/k", range(start, start + 5)))
        while len(got) < 40:
            held: list[Delivery] = []
            while found := await inbox.take(0.3):
                held += found
            assert len(held) <= 10
            await inbox.accept(held)
            got += held
    assert texts(got) == [str(n) for n in range(40)]


async def test_a_browser_sees_what_happens_while_it_looks(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """E7: an index of a browser is not kept, and nothing of what was before comes."""
    wanted = Subscription(filter=f"{name}/a/+", index=f"{name}-b", client=ClientType.BROWSER)
    await driver.publish(numbered(f"{name}/a/k", range(3)))
    for turn in (10, 20):
        async with driver.subscribed(wanted) as inbox:
            await driver.publish(numbered(f"{name}/a/k", range(turn, turn + 3)))
            got = await taken(inbox, 3)
            await inbox.accept(got)
            assert texts(got) == [str(n) for n in range(turn, turn + 3)]


async def test_a_message_that_is_published_twice_is_handled_once(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """E7, E12: the same id is the same message."""
    got = Seen()
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i")
    async with subscribing(driver, wanted, got):
        twice = Message(name=f"{name}/a/k", value=b"once")
        await driver.publish([twice])
        await driver.publish([twice])
        await driver.publish(numbered(f"{name}/a/k", range(1)))
        await got.wait(2)
    assert got.values == ["once", "0"]


async def test_ten_thousand_messages_come_without_loss(
    driver: MessageBrokerAdapter, name: str
) -> None:
    """E7: published in batches, read at the same time, each handled once and in order."""
    got = Seen()
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i")
    publishing = Publishing(driver, SystemClock(), random.Random(2))
    async with subscribing(driver, wanted, got):
        for start in range(0, 10_000, 500):
            await publishing.publish(numbered(f"{name}/a/k", range(start, start + 500)))
        await got.wait(10_000)
    assert got.values == [str(n) for n in range(10_000)]


async def test_a_crash_of_the_server_loses_and_repeats_nothing(
    driver: MessageBrokerAdapter, server: Server, starter: ThreadPoolExecutor, name: str
) -> None:
    """C14, E7: both sides go on by themselves when it is back."""
    got = Seen()
    wanted = Subscription(filter=f"{name}/a/#", index=f"{name}-i")
    publishing = Publishing(driver, SystemClock(), random.Random(3))
    async with subscribing(driver, wanted, got):
        await publishing.publish(numbered(f"{name}/a/k", range(100)))
        await got.wait(100)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(starter, server.end)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(
                publishing.publish(numbered(f"{name}/a/k", range(100, 200)))
            )
            await loop.run_in_executor(starter, server.start)
            async with asyncio.timeout(WAIT_S):
                await waiting
        await publishing.publish(numbered(f"{name}/a/k", range(200, 300)))
        await got.wait(300)
    assert len(got.values) == 300
    assert set(got.values) == {str(n) for n in range(300)}

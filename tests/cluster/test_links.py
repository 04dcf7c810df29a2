"""Links between nodes: real sockets, in one process."""

import asyncio
from collections.abc import Awaitable

import pytest

from chordmq.cluster.link import AnswerOverdue, Caller, LinkDown, PeerRefused
from chordmq.cluster.links import Links
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import NotLeader
from tests.cluster.linked import Linked, introduce, linked, until_connected


def echoes(links: Links, kind: int = Kind.FORWARD) -> None:
    async def echo(caller: Caller, body: memoryview) -> Body:
        return [f"{caller.broker}/{caller.epoch}: ".encode(), body]

    links.answer(kind, echo)


async def test_both_ends_of_one_connection_ask_each_other() -> None:
    async with linked(2) as (one, two):
        echoes(one.links)
        echoes(two.links)
        await until_connected(one, two)
        assert bytes(await one.links.ask(2, Kind.FORWARD, [b"a", b"b"])) == b"1/101: ab"
        assert bytes(await two.links.ask(1, Kind.FORWARD, [b"c"])) == b"2/102: c"
        assert bytes(await two.links.ask(2, Kind.FORWARD, [b"d"])) == b"2/102: d"
        assert len(one.listener.connections) == 0
        assert len(two.listener.connections) == 1


async def test_answers_find_their_requests_though_they_come_in_another_order() -> None:
    async with linked(2) as (one, two):
        first_may_end = asyncio.Event()

        async def slow_or_fast(caller: Caller, body: memoryview) -> Body:
            if bytes(body) == b"slow":
                await first_may_end.wait()
            return [body]

        two.links.answer(Kind.FORWARD, slow_or_fast)
        async with asyncio.TaskGroup() as tasks:
            slow = tasks.create_task(one.links.ask(2, Kind.FORWARD, [b"slow"], 60))
            await until_connected(one, two)
            assert bytes(await one.links.ask(2, Kind.FORWARD, [b"fast"])) == b"fast"
            assert not slow.done()
            first_may_end.set()
            assert bytes(await slow) == b"slow"


async def test_large_bodies_cross_whole_while_small_ones_go_on() -> None:
    async with linked(2) as (one, two):
        echoes(two.links)
        await until_connected(one, two)
        large = bytes(range(256)) * 40_000
        answers = await asyncio.gather(
            *(one.links.ask(2, Kind.FORWARD, [body], 60) for body in [large, b"small", large])
        )
        assert [len(answer) for answer in answers] == [len(large) + 7, 12, len(large) + 7]
        assert bytes(answers[2][7:]) == large


async def test_a_handlers_error_becomes_the_refusal_under_its_name() -> None:
    async with linked(2) as (one, two):

        async def refuse(caller: Caller, body: memoryview) -> Body:
            if body:
                raise NotLeader("node 3 leads it")
            raise ZeroDivisionError

        two.links.answer(Kind.FORWARD, refuse)
        with pytest.raises(PeerRefused, match="node 3 leads it") as refusal:
            await one.links.ask(2, Kind.FORWARD, [b"x"])
        assert refusal.value.name == "NotLeader"
        with pytest.raises(PeerRefused, match="failed to answer"):
            await one.links.ask(2, Kind.FORWARD)
        with pytest.raises(PeerRefused, match="nobody here answers"):
            await one.links.ask(2, 99)


async def test_notices_arrive_in_the_order_they_were_sent() -> None:
    async with linked(2) as (one, two):
        seen: list[tuple[Caller, bytes]] = []
        everything = asyncio.Event()

        def note(caller: Caller, body: memoryview) -> None:
            seen.append((caller, bytes(body)))
            if len(seen) == 1000:
                everything.set()

        two.links.on(Kind.RING, note)
        await until_connected(one, two)
        assert all(one.links.send(2, Kind.RING, [b"%d" % i]) for i in range(1000))
        async with asyncio.timeout(60):
            await everything.wait()
        assert seen == [(Caller(1, 101), b"%d" % i) for i in range(1000)]
        assert not one.links.send(3, Kind.RING, [b"nobody"])


async def test_who_waits_for_an_answer_learns_that_the_link_has_ended() -> None:
    async with linked(2) as (one, two):
        asked = asyncio.Event()

        async def never(caller: Caller, body: memoryview) -> Body:
            asked.set()
            await asyncio.Event().wait()
            return []

        two.links.answer(Kind.FORWARD, never)
        lost: list[int] = []
        one.links.on_lost.append(lost.append)
        await until_connected(one, two)
        with pytest.raises(AnswerOverdue):
            await one.links.ask(2, Kind.FORWARD, timeout_s=0.05)
        asked.clear()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(_failure(one, Kind.FORWARD))
            await asked.wait()
            await two.close()
            assert type(await waiting) is LinkDown
        assert lost == [2]
        assert not one.links.is_connected(2)


async def _failure(node: Linked, kind: int) -> Exception:
    with pytest.raises(LinkDown) as failure:
        await node.links.ask(2, kind, timeout_s=60)
    return failure.value


async def test_who_leaves_the_cluster_is_lost_like_one_whose_link_has_ended() -> None:
    """C13: or what goes over its link, such as a client's connection, would never end."""
    async with linked(2) as (one, two):
        await until_connected(one, two)
        lost: list[int] = []
        one.links.on_lost.append(lost.append)
        one.links.follow({1: one.place})
        assert lost == [2]
        assert not one.links.send(2, Kind.RING, [b"nobody"])


async def test_a_node_that_comes_back_is_dialled_again() -> None:
    async with linked(2) as (one, two):
        connected: list[int] = []
        one.links.on_connected.append(connected.append)
        await until_connected(one, two)
        await two.close()
        again = Linked(2, two._settings)
        await again.open()
        again.links.begin(500)
        introduce([one, again])
        await until_connected(one, again)
        assert connected == [2, 2]
        assert bytes(await one.links.ask(2, Kind.PING, [b"there?"])) == b"there?"
        await again.close()


async def test_an_earlier_life_of_a_node_is_not_listened_to() -> None:
    async with linked(2) as (one, two):
        echoes(one.links)
        await until_connected(one, two)
        assert bytes(await two.links.ask(1, Kind.FORWARD, [b"x"])) == b"2/102: x"
        one.links.check(Caller(2, 103))
        with pytest.raises(PeerRefused, match="epoch 103") as refusal:
            await two.links.ask(1, Kind.FORWARD, [b"x"])
        assert refusal.value.name == "StaleBrokerEpoch"
        two.links.begin(104)
        assert bytes(await two.links.ask(1, Kind.FORWARD, [b"x"])) == b"2/104: x"


async def test_a_node_of_another_cluster_is_refused() -> None:
    async with linked(1) as (one,):
        stranger = Linked(2, one._settings, "another")
        await stranger.open()
        introduce([one, stranger])
        with pytest.raises(LinkDown):
            await one.links.ask(2, Kind.PING, timeout_s=0.5)
        await stranger.close()


async def test_what_cannot_be_reached_is_refused_at_once_after_a_moment_of_grace() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        await two.close()
        one.links.peers[2].down_since_s -= 60
        with pytest.raises(LinkDown, match="no link to node 2"):
            async with asyncio.timeout(30):
                await one.links.ask(2, Kind.PING, timeout_s=60)
        with pytest.raises(LinkDown, match="not known"):
            await one.links.ask(9, Kind.PING)


async def test_a_link_that_has_gone_silent_is_given_up() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        link = one.links.peers[2].link
        assert link is not None
        link.last_active_s -= 3
        one.links._check_silence()
        await one.links.ask(2, Kind.PING)
        assert one.links.now_s() - link.last_active_s < 3, "the sign of life has come"
        link.last_active_s -= 60
        one.links._check_silence()
        await link.ended.wait()
        await until_connected(one, two)


@pytest.mark.parametrize("gone", [0, 1])
async def test_both_sides_learn_that_a_nodes_program_has_ended(gone: int) -> None:
    """A9: a killed node is not waited for until its lease ends."""
    async with linked(2) as nodes:
        await until_connected(*nodes)
        refused: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        nodes[1 - gone].links.on_refused.append(
            lambda broker: None if refused.done() else refused.set_result(broker)
        )
        await nodes[gone].close()
        async with asyncio.timeout(60):
            assert await refused == nodes[gone].links.broker


async def test_who_waits_to_be_dialled_looks_whether_the_other_is_there() -> None:
    async with linked(2, follow=False) as (one, two):
        await one.close()
        refused: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        two.links.on_refused.append(
            lambda broker: None if refused.done() else refused.set_result(broker)
        )
        introduce([one, two])
        async with asyncio.timeout(60):
            assert await refused == 1


async def test_a_node_that_only_hung_up_has_not_ended() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        refused: list[int] = []
        one.links.on_refused.append(refused.append)
        link = one.links.peers[2].link
        assert link is not None
        link.close("for a test")
        await link.ended.wait()
        await until_connected(one, two)
        assert refused == []


async def test_a_node_that_shuts_down_begins_no_more_work() -> None:
    """Work under way may take its time to end; what is asked meanwhile is not begun."""
    async with linked(2) as (one, two):
        asked: asyncio.Queue[bytes] = asyncio.Queue()
        is_told, may_end = asyncio.Event(), asyncio.Event()

        async def slow_to_end(caller: Caller, body: memoryview) -> Body:
            asked.put_nowait(bytes(body))
            try:
                await asyncio.Event().wait()
            finally:
                is_told.set()
                await may_end.wait()
            return ()

        one.links.answer(Kind.FORWARD, slow_to_end)
        await until_connected(one, two)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_is_down(two.links.ask(1, Kind.FORWARD, [b"first"], 60)))
            assert await asked.get() == b"first"
            tasks.create_task(one.close())
            await is_told.wait()
            await _is_down(two.links.ask(1, Kind.FORWARD, [b"second"], 60))
            may_end.set()
        assert asked.empty()


async def _is_down(asking: Awaitable[memoryview]) -> None:
    with pytest.raises(LinkDown):
        await asking

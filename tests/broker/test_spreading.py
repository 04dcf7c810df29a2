"""New records of a popular partition are pushed to all nodes at once; who misses one is helped."""

from collections.abc import Callable
from pathlib import Path

from chordmq.broker.remote_reads import REPAIR_S, REPEAT_S
from chordmq.broker.spreading import Spreading
from tests.broker.elsewhere import Elsewhere, OnlyTopic, elsewhere
from tests.broker.replicated import batch, until

Hear = Callable[[int, bytes], None]


class Ring:
    """Brings a payload to all other nodes, but for those that are to miss it."""

    def __init__(self) -> None:
        self.watchers: list[Hear] = []
        self.missing: set[int] = set()
        self.others: dict[int, list[Hear]] = {}
        self.sent = 0

    def broadcast(self, payload: bytes) -> None:
        self.sent += 1
        for broker, watchers in self.others.items():
            for hear in watchers if broker not in self.missing else ():
                hear(1, payload)


async def spread(both: Elsewhere) -> tuple[Ring, Spreading]:
    """Have the leader push to the nodes without a copy, which wait at its end."""
    ring = Ring()
    topics = OnlyTopic(both.leader)
    spreading = Spreading(ring, topics, both.reads[1])  # type: ignore[arg-type]
    for reading in both.readings:
        theirs = Ring()
        Spreading(theirs, reading.topics, reading.reads)  # type: ignore[arg-type]
        ring.others[reading.broker] = theirs.watchers
        reading.look()
    await until(lambda: both.waiting() == len(both.readings))
    spreading.look([both.leader])
    return ring, spreading


async def test_each_push_brings_all_readers_on(tmp_path: Path) -> None:
    """A7: one broadcast for all nodes, instead of an answer to each."""
    async with elsewhere(tmp_path, (1,)) as both:
        ring, spreading = await spread(both)
        for number in range(5):
            both.leader.append(batch(b"%d" % number))
            for reading in both.readings:
                await reading.read(number + 1)
                reading.look()
        for reading in both.readings:
            assert reading.values == [b"%d" % number for number in range(5)]
        assert ring.sent == spreading.pushed == 5
        spreading.look([])
        both.leader.append(batch(b"5"))
        for reading in both.readings:
            reading.clock.advance(round(REPAIR_S * 1000))
            reading.reads.repeat_overdue()
            assert (await reading.read(6))[-1] == b"5"
        assert ring.sent == 5


async def test_who_misses_a_push_sees_it_by_the_next(tmp_path: Path) -> None:
    """A7: with repair: the gap is fetched from the leader."""
    async with elsewhere(tmp_path, (1,)) as both:
        ring, _ = await spread(both)
        one, other = both.readings
        ring.missing = {other.broker}
        both.leader.append(batch(b"a"))
        assert await one.read(1) == [b"a"]
        one.look()
        ring.missing = set()
        both.leader.append(batch(b"b"))
        assert await one.read(2) == [b"a", b"b"]
        assert await other.read(2) == [b"a", b"b"]


async def test_who_misses_the_last_push_asks_after_a_while(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        ring, _ = await spread(both)
        one, other = both.readings
        ring.missing = {other.broker}
        both.leader.append(batch(b"a"))
        assert await one.read(1) == [b"a"]
        other.reads.repeat_overdue()
        other.clock.advance(round(REPEAT_S * 1000))
        other.reads.repeat_overdue()
        assert await other.read(1) == [b"a"]


async def test_what_is_no_push_and_what_nobody_wants_is_let_be(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, (1,)) as both:
        ring, spreading = await spread(both)
        one, other = both.readings
        spreading.hear(2, b"\x93\xa4news\x00\xc3")
        spreading.hear(2, b"\xc1" + bytes(40))
        other.feed.close()
        await until(lambda: both.waiting() == 2)
        both.leader.append(batch(b"a"))
        assert await one.read(1) == [b"a"]
        assert ring.sent == 1
        assert not other.partition.readers

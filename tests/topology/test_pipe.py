"""What pipes copy: everything once and in order, whichever way it comes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.records.record import NewRecord, Record
from chordmq.topology.pipe import (
    ORIGIN,
    POSITION,
    Health,
    Pace,
    Progress,
    Vitals,
    copy,
    progress_in,
    source_of,
    worst,
)

ROOT = source_of("root", "0123456789")


def stored(records: list[NewRecord], start: int = 0) -> list[Record]:
    return [Record(start + number, *record) for number, record in enumerate(records)]


def written(*values: bytes) -> list[Record]:
    return stored([NewRecord(7, b"k", value, (("h", b"x"),)) for value in values])


def values(records: list[NewRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_a_copy_keeps_the_record_and_says_where_it_came_from() -> None:
    """D12: origin and position lie in the log with the records."""
    copied = copy(written(b"a", b"b"), source=ROOT, own="shop", following=2, progress=Progress())
    first, last = copied.records
    assert first == (7, b"k", b"a", (("h", b"x"), (ORIGIN, b"root:01234567/0")))
    assert last.headers[:2] == (("h", b"x"), (ORIGIN, b"root:01234567/1"))
    assert last.headers[2][0] == POSITION
    (_, read) = stored(copied.records)
    assert progress_in(read) == copied.progress == Progress({ROOT: 2}, {ROOT: 1})


def test_what_is_here_already_does_not_come_again_from_another_parent() -> None:
    """D12: fail-over without repetition: the other parent has offsets of its own."""
    root = written(b"a", b"b", b"c")
    middle = stored(
        copy(root, source=ROOT, own="x", following=3, progress=Progress()).records, start=100
    )
    here = copy(root[:2], source=ROOT, own="shop", following=2, progress=Progress())
    x = source_of("x", "ffffffffff")
    more = copy(middle, source=x, own="shop", following=103, progress=here.progress)
    assert values(more.records) == [b"c"]
    assert more.records[0].headers[1] == (ORIGIN, b"root:01234567/2")
    assert more.progress == Progress({ROOT: 2, x: 103}, {ROOT: 2})


def test_what_was_written_here_does_not_come_back() -> None:
    """D12: loop prevention between two nodes that copy each other."""
    up = copy(written(b"a"), source=source_of("shop", "aa"), own="root", following=1,
              progress=Progress())  # fmt: skip
    back = copy(stored(up.records), source=ROOT, own="shop", following=1, progress=Progress())
    assert not back.records
    assert back.progress.next == {ROOT: 1}


def test_a_topic_that_was_made_anew_is_another_source() -> None:
    old = copy(written(b"a", b"b"), source=ROOT, own="shop", following=2, progress=Progress())
    anew = source_of("root", "ffff")
    new = copy(written(b"c"), source=anew, own="shop", following=1, progress=old.progress)
    assert values(new.records) == [b"c"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 12))))
def test_overlapping_reads_of_three_parents_add_up_to_the_origin(
    reads: list[tuple[int, int, int]],
) -> None:
    """D12: whatever is read again, and from whom, each record is stored once and in order."""
    root = written(*(b"%d" % number for number in range(20)))
    relays = [root] + [
        stored(copy(root, source=ROOT, own=name, following=20, progress=Progress()).records, start)
        for name, start in (("x", 50), ("y", 90))
    ]
    names = [ROOT, source_of("x", "1"), source_of("y", "2")]
    progress, log = Progress(), list[bytes | None]()
    for way, back, count in reads:
        # A parent is asked from where the last record is or before: never beyond a gap.
        start = max(0, len(log) - back)
        part = relays[way][start : start + count]
        if part:
            following = part[-1].offset + 1
            copied = copy(part, source=names[way], own="me", following=following, progress=progress)
            progress, log = copied.progress, log + values(copied.records)
    assert log == [record.value for record in root[: len(log)]]


def health_after(*outcomes: bool, lag: int = 0) -> Health:
    vitals = Vitals(lag=lag)
    for is_well in outcomes:
        vitals.note(is_well=is_well)
    return vitals.health


def test_health_follows_errors_and_lag() -> None:
    """D12: HEALTHY, DEGRADED, UNHEALTHY."""
    well = [True] * 20
    assert health_after() is Health.HEALTHY
    assert health_after(*well, False) is Health.DEGRADED
    assert health_after(*well, False, False, False) is Health.UNHEALTHY
    assert health_after(False, False, False, *well) is Health.HEALTHY
    assert health_after(*well, lag=200_000) is Health.DEGRADED
    assert health_after(*well, lag=20_000_000) is Health.UNHEALTHY
    assert worst([Health.HEALTHY, Health.DEGRADED]) is Health.DEGRADED
    assert worst([]) is Health.HEALTHY


def test_a_pace_makes_who_took_much_wait() -> None:
    pace = Pace(1000)
    assert pace.wait_s(500, 10.0) == 0.5
    assert pace.wait_s(500, 10.0) == 1.0
    assert pace.wait_s(500, 20.0) == 0.5
    assert Pace(0).wait_s(10**9, 0.0) == 0.0

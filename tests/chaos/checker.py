"""Finds what must never happen in a history: pure functions, each for one kind of anomaly.

The model is Kafka's. A record that was acknowledged is there at the end, once, where it was said to
be; what was refused or aborted is not; producers' records keep their order; consumers miss nothing
between two records of one assignment, and get none again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.chaos.history import History, Place, Read, Write

Finding = str


def check(history: History) -> dict[str, list[Finding]]:
    """Return the anomalies by kind; an empty result is a clean history."""
    found = {name: list(find(history)) for name, find in CHECKS.items()}
    return {name: findings for name, findings in found.items() if findings}


def lost_writes(history: History) -> Iterator[Finding]:
    """Acknowledged, not part of a transaction that was aborted, and not there."""
    there = {read.value for read in history.final}
    outcomes = {one.name: one.outcome for one in history.transactions}
    for write in history.writes:
        is_due = write.outcome == "ok" and (
            write.transaction is None or outcomes[write.transaction] == "committed"
        )
        if is_due and write.value not in there:
            yield f"{write.value} at {write.place} offset {write.offset}"


def duplicates(history: History) -> Iterator[Finding]:
    """One record at two offsets, though its producer is idempotent."""
    first: dict[str, Read] = {}
    for read in history.final:
        other = first.setdefault(read.value, read)
        if (other.place, other.offset) != (read.place, read.offset):
            yield f"{read.value} at {other.place}:{other.offset} and {read.place}:{read.offset}"


def phantoms(history: History) -> Iterator[Finding]:
    """Read, and never sent, or sent elsewhere."""
    sent = {write.value: write.place for write in history.writes}
    for read in (*history.reads, *history.final):
        if sent.get(read.value) != read.place:
            yield f"{read.value} in {read.place}"


def inconsistent_offsets(history: History) -> Iterator[Finding]:
    """Two records at one offset, of all that anybody was told at any time."""
    values: dict[tuple[Place, int], str] = {}
    told = [(w.place, w.offset, w.value) for w in history.writes if w.outcome == "ok"]
    told += [(r.place, r.offset, r.value) for r in (*history.reads, *history.final)]
    for place, offset, value in told:
        if offset is None or offset < 0:
            continue
        other = values.setdefault((place, offset), value)
        if other != value:
            yield f"{place}:{offset} holds {other} and {value}"


def aborted_reads(history: History) -> Iterator[Finding]:
    """Read by somebody who reads committed records only, and aborted or refused."""
    aborted = {one.name for one in history.transactions if one.outcome == "aborted"}
    gone = {w.value for w in history.writes if w.outcome == "failed" or w.transaction in aborted}
    for read in (*history.reads, *history.final):
        if read.value in gone:
            yield f"{read.value} at {read.place}:{read.offset}"


def torn_transactions(history: History) -> Iterator[Finding]:
    """Some records of a transaction there, and others not."""
    there = {read.value for read in history.final}
    parts: dict[str, list[Write]] = defaultdict(list)
    for write in history.writes:
        if write.transaction is not None and write.outcome == "ok":
            parts[write.transaction].append(write)
    for name, writes in parts.items():
        seen = [write.value in there for write in writes]
        if any(seen) and not all(seen):
            yield f"{name}: {sum(seen)} of {len(seen)}"


def reordered(history: History) -> Iterator[Finding]:
    """Records of one producer in another order than they were sent."""
    order = {write.value: number for number, write in enumerate(history.writes)}
    sender = {write.value: write.producer for write in history.writes}
    newest: dict[tuple[Place, str], str] = {}
    for read in sorted(history.final, key=lambda read: (read.place, read.offset)):
        producer = sender.get(read.value)
        if producer is None:
            continue
        before = newest.get((read.place, producer))
        if before is not None and order[before] > order[read.value]:
            yield f"{before} before {read.value} in {read.place}"
        newest[read.place, producer] = read.value


def realtime_order(history: History) -> Iterator[Finding]:
    """Sent after another was acknowledged, and stored before it."""
    by_place: dict[Place, list[Write]] = defaultdict(list)
    for write in history.writes:
        if write.outcome == "ok" and write.offset is not None and write.offset >= 0:
            by_place[write.place].append(write)
    for place, writes in by_place.items():
        ended = sorted(writes, key=lambda write: write.ended_s or 0)
        position, highest = 0, -1
        for write in sorted(writes, key=lambda write: write.began_s):
            while position < len(ended) and (ended[position].ended_s or 0) < write.began_s:
                highest = max(highest, ended[position].offset or 0)
                position += 1
            assert write.offset is not None
            if write.offset < highest:
                yield f"{write.value} at {place}:{write.offset}, {highest} was acknowledged before"


def polls(history: History) -> Iterator[Finding]:
    """A consumer that skips a committed record, or gets one again, within one assignment."""
    offsets: dict[Place, list[int]] = defaultdict(list)
    for read in sorted(history.final, key=lambda read: read.offset):
        offsets[read.place].append(read.offset)
    followers = {place: dict(pairwise(found)) for place, found in offsets.items()}
    taken: dict[tuple[str, int, Place], int] = {}
    for read in history.reads:
        key = (read.consumer, read.assignment, read.place)
        before = taken.get(key)
        taken[key] = read.offset
        if before is None:
            continue
        if read.offset <= before:
            yield f"{read.consumer} got {read.place}:{read.offset} after {before}"
        elif followers[read.place].get(before, read.offset) != read.offset:
            yield f"{read.consumer} got {read.place}:{read.offset} right after {before}"


def unseen(history: History) -> Iterator[Finding]:
    """There at the end, and never given to the group that has read to the end."""
    groups: dict[str, set[str]] = defaultdict(set)
    for read in history.reads:
        if "/" in read.consumer:
            groups[read.consumer.partition("/")[0]].add(read.value)
    for group, values in groups.items():
        for read in history.final:
            if read.value not in values:
                yield f"{read.value} at {read.place}:{read.offset} by {group}"


def two_leaders(history: History) -> Iterator[Finding]:
    """Two leaders of a partition in one epoch, or an epoch that goes back."""
    known: dict[tuple[str, int], int] = {}
    newest: dict[str, int] = {}
    for partition, epoch, leader in history.leaders:
        if leader >= 0 and known.setdefault((partition, epoch), leader) != leader:
            yield f"{partition} epoch {epoch}: {known[partition, epoch]} and {leader}"
        if epoch < newest.get(partition, 0):
            yield f"{partition} went from epoch {newest[partition]} to {epoch}"
        newest[partition] = epoch


def unequal_copies(history: History) -> Iterator[Finding]:
    """Copies of a partition that are not the same bytes once all are in sync."""
    for partition, sums in history.copies.items():
        if len(set(sums.values())) > 1:
            yield f"{partition}: {sums}"


CHECKS: dict[str, Callable[[History], Iterator[Finding]]] = {
    "lost write": lost_writes,
    "duplicate": duplicates,
    "phantom": phantoms,
    "inconsistent offsets": inconsistent_offsets,
    "aborted read": aborted_reads,
    "torn transaction": torn_transactions,
    "reordered": reordered,
    "realtime order": realtime_order,
    "poll": polls,
    "unseen": unseen,
    "two leaders": two_leaders,
    "unequal copies": unequal_copies,
}

"""Reads what two pipelines have told, each from its topics, and compares it."""

from collections.abc import Sequence

from chordmq.cdc.compare import Report, Told, compare, read_told
from chordmq.cdc.runner import Broker
from chordmq.client.bulk import Bulk, BulkSettings, OffsetRange
from chordmq.client.offsets import EARLIEST_TIME, LATEST_TIME
from chordmq.records.record import read_records


def compared(
    broker: Broker, ours: str, theirs: str, tables: Sequence[str], ignored: frozenset[str]
) -> list[Report]:
    """Return a report for each table that both prefixes have, or for those that are named."""
    with Bulk(BulkSettings(bootstrap=broker.bootstrap, connection=broker.connection)) as bulk:
        names = {topic for topic, _ in bulk.places_like(".*")}
        mine = {name.removeprefix(f"{ours}.") for name in names if name.startswith(f"{ours}.")}
        other = {name.removeprefix(f"{theirs}.") for name in names if name.startswith(f"{theirs}.")}
        wanted = sorted(mine & other & set(tables) if tables else mine & other)
        return [
            compare(
                table,
                _told(bulk, f"{ours}.{table}"),
                _told(bulk, f"{theirs}.{table}"),
                ignored,
            )
            for table in wanted
        ]


def _told(bulk: Bulk, topic: str) -> list[Told]:
    """Return the changes of a topic, in the order of its partitions."""
    places = bulk.places_of([topic])
    starts = bulk.offsets(dict.fromkeys(places, EARLIEST_TIME))
    ends = bulk.offsets(dict.fromkeys(places, LATEST_TIME))
    found = []
    for name, index in places:
        part = OffsetRange(name, index, starts[name, index], ends[name, index])
        for fetched in bulk.fetch(part):
            for position, _ in fetched.visible.batches:
                records = read_records(fetched.data[position:])
                told = (read_told(record.key, record.value) for record in records)
                found += [one for one in told if one is not None]
    return found

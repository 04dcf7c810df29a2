"""What queues are done with, and what nothing leads to any more, is removed from time to time."""

from collections.abc import Iterable

from chordmq.broker.partition import Partition
from chordmq.broker.queues.definitions import Stored, binding_entry, ended_entry
from chordmq.broker.queues.following import QueueHost
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.errors import ChordMQError

ENDED_KEPT_MS = 60_000
"""How long what has ended is kept at least, for messages that are on their way."""


def forget_ended(vhosts: Iterable[VirtualHost], stamp: int) -> list[Stored]:
    """Drop bindings and exchanges that have ended, once no queue holds messages that old."""
    entries: list[Stored] = []
    for vhost in vhosts:
        stamps = [stamp - ENDED_KEPT_MS]
        stamps += (queue.oldest_stamp for queue in vhost.queues.values())
        oldest = min(stamps)
        exchanges = vhost.exchanges
        for binding in [one for one in exchanges.retired() if one.until <= oldest]:
            exchanges.forget(binding)
            entries.append(binding_entry(vhost.name, binding, None))
        for exchange in [one for one in exchanges.ended() if one.until <= oldest]:
            exchanges.forget(exchange)
            entries.append(ended_entry(vhost.name, exchange, None))
    return entries


async def trim(host: QueueHost, done: Iterable[tuple[Partition, int]]) -> None:
    """Drop what all queues are done with and what is older than topics keep it by default."""
    retention_ms = host.settings.topic_defaults().retention_ms
    if retention_ms < 0:
        return
    kept_ms = host.clock.now_ms() - retention_ms
    for partition, before in done:
        try:
            extent = (await host.bounds.of([partition], kept_ms))[partition]
            if min(before, extent.at) > extent.start:
                await host.leaders.delete_records(partition, min(before, extent.at))
        except ChordMQError:
            continue  # its leader is changing; there is another time

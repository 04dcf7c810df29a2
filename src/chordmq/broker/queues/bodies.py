"""Bodies of messages that are read from the log again, here or from another node."""

from chordmq.broker.feed import Feed
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.follower import READ_TIMEOUT_S, read_batches
from chordmq.broker.queues.queue import Queue
from chordmq.errors import ChordMQError


def load(entry: Entry) -> bytes | None:
    """Return a message's body from the log that this node has; None if it is not there."""
    try:
        for _, records in read_batches(entry.source.partition, entry.offset, 1):
            for record in records:
                if record.offset == entry.offset:
                    return record.value or b""
    except ChordMQError:  # deleted, or cut off by retention
        return None
    return None


async def fetch(entry: Entry) -> bytes | None:
    """Return a message's body from whichever node has it; None if it is gone.

    Raises TimeoutError when no node answers.
    """
    partition = entry.source.partition
    feed = Feed({partition.index: partition}, {partition.index: entry.offset})
    try:
        while feed.is_at_end:
            if not await feed.more(READ_TIMEOUT_S):
                raise TimeoutError
        found = feed.take(1, 1)
    except ChordMQError:
        return None
    finally:
        feed.close()
    if not found or found[0].record.offset != entry.offset:
        return None
    return found[0].record.value or b""


async def bring_back(queue: Queue, entry: Entry) -> None:
    """Get a message's body, and put the message back into its queue."""
    try:
        entry.body = await fetch(entry)
    except TimeoutError:
        pass  # it is asked for again
    else:
        if entry.body is None:
            queue.finish(entry, is_unacked=False)
            return
    if not queue.is_deleted:
        queue.restore(entry)
        queue.pump()

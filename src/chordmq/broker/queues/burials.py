"""Puts dead letters into the log before the messages that they stand for are done."""

from chordmq.broker.queues.bodies import fetch
from chordmq.broker.queues.dead_letters import dead_letter, goes_in_circles
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.exchanges import DEFAULT
from chordmq.broker.queues.publishing import Publishing
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.errors import ChordMQError
from chordmq.logs import get_logger

log = get_logger(__name__)


def has_grave(vhost: VirtualHost, queue: Queue) -> bool:
    """Return whether the queue's dead-letter exchange is there."""
    name = queue.rules.dead_letter_exchange
    return name == DEFAULT or (name is not None and vhost.exchanges.find(name) is not None)


async def bury(
    publishing: Publishing, vhost: VirtualHost, queue: Queue, dead: tuple[Entry, str]
) -> None:
    """Publish the dead letter of a message with the reason of its death; then it is done.

    If that cannot be stored, the message goes back into its queue.
    """
    entry, reason = dead
    try:
        body = entry.body if entry.body is not None else await fetch(entry)
    except TimeoutError:
        queue.restore(entry)
        return
    if body is None:
        queue.finish(entry, is_unacked=False)
        return
    envelope = dead_letter(queue, entry, reason, publishing.stamp())
    targets = [one.name for one in vhost.targets(envelope)]
    without = goes_in_circles(entry, reason, targets)
    try:
        if not targets or len(without) < len(targets):
            await publishing.publish(vhost, envelope, body, sorted(without))
    except ChordMQError as error:
        log.error("dead letter not stored", queue=queue.name, error=str(error))
        queue.restore(entry)
        return
    queue.finish(entry, is_unacked=False)

"""The numbers of the AMQP front."""

from collections.abc import Iterator

from chordmq.fronts.amqp.front import AmqpFront
from chordmq.metrics import Metric, counter, gauge


def amqp_measures(front: AmqpFront) -> Iterator[Metric]:
    """Yield what came, what went, what waits, and who is connected."""
    yield counter("chordmq_amqp_messages_in", "Messages published.", front.messages_in)
    yield counter("chordmq_amqp_messages_out", "Messages delivered.", front.messages_out)
    yield counter("chordmq_amqp_messages_returned", "Messages returned.", front.returned)
    yield gauge("chordmq_amqp_clients", "Clients connected.", len(front.connections))
    queues = list(front.queues)
    yield gauge("chordmq_amqp_queues", "Queues declared.", len(queues))
    yield gauge(
        "chordmq_amqp_messages_ready",
        "Messages that wait in queues.",
        sum(queue.ready for queue in queues),
    )
    yield gauge(
        "chordmq_amqp_messages_unacknowledged",
        "Messages delivered and not acknowledged.",
        sum(queue.unacked for queue in queues),
    )
    yield gauge(
        "chordmq_amqp_progress_unstored",
        "Partitions whose queues have got further than the log knows.",
        front.queues.progress.unstored,
    )

"""The numbers of the AMQP 1.0 front."""

from collections.abc import Iterator

from chordmq.fronts.amqp1.front import Amqp1Front
from chordmq.metrics import Metric, counter, gauge


def amqp1_measures(front: Amqp1Front) -> Iterator[Metric]:
    """Yield what came, what went, and who is connected."""
    yield counter("chordmq_amqp1_messages_in", "Messages sent by clients.", front.messages_in)
    yield counter("chordmq_amqp1_messages_out", "Messages delivered.", front.messages_out)
    yield counter(
        "chordmq_amqp1_messages_released", "Messages that no queue wanted.", front.released
    )
    yield gauge("chordmq_amqp1_clients", "Clients connected.", len(front.connections))

"""The numbers of the plain length-prefixed protocol."""

from collections.abc import Iterator

from chordmq.fronts.framed.front import FramedFront
from chordmq.metrics import Metric, counter, gauge


def framed_measures(front: FramedFront) -> Iterator[Metric]:
    """Yield what came, what went, and who is connected."""
    yield counter("chordmq_framed_messages_in", "Messages taken.", front.messages_in)
    yield counter("chordmq_framed_messages_out", "Messages delivered.", front.messages_out)
    yield counter(
        "chordmq_framed_messages_dropped", "Messages dropped for slow consumers.", front.dropped
    )
    yield gauge("chordmq_framed_consumers", "Consumers connected.", len(front.consumers))

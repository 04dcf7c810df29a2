"""The numbers of the provider's protocol."""

from collections.abc import Iterator

from chordmq.fronts.provider.front import ProviderFront
from chordmq.metrics import Metric, counter, gauge


def provider_measures(front: ProviderFront) -> Iterator[Metric]:
    """Yield what came, what went, and who is connected."""
    yield counter("chordmq_provider_messages_in", "Messages taken.", front.messages_in)
    yield counter("chordmq_provider_messages_out", "Messages delivered.", front.messages_out)
    yield counter(
        "chordmq_provider_messages_redelivered",
        "Messages delivered again because nobody had acknowledged them.",
        front.redelivered,
    )
    yield gauge("chordmq_provider_clients", "Clients connected.", len(front.sessions))

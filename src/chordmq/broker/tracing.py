"""Has spans recorded of what a broker takes in, hands out, and exchanges with other nodes."""

from typing import TYPE_CHECKING

from chordmq.broker.broker import Broker

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing


def watch(broker: Broker, tracing: "Tracing") -> None:
    """Have every batch and every delivery seen, after interceptors have changed them."""
    shared = broker.shared
    shared.intercept = tracing.publishing(shared.intercept)
    shared.deliver = tracing.delivering(shared.deliver)
    shared.copied = tracing.copied
    if broker.clustering is not None:
        broker.clustering.links.tracing = tracing

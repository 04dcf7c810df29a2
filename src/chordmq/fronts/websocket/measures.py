"""The numbers of the WebSocket gateway."""

from collections.abc import Iterator

from chordmq.fronts.websocket.front import WebSocketFront
from chordmq.metrics import Metric, counter, gauge


def websocket_measures(front: WebSocketFront) -> Iterator[Metric]:
    """Yield what came, what went, and who is connected."""
    yield counter("chordmq_websocket_messages_in", "Messages taken.", front.messages_in)
    yield counter("chordmq_websocket_messages_out", "Messages delivered.", front.messages_out)
    yield counter(
        "chordmq_websocket_messages_dropped",
        "Messages skipped for clients that were too slow and had chosen so.",
        front.dropped,
    )
    yield gauge("chordmq_websocket_clients", "Clients connected.", len(front.connections))

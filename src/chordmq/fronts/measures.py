"""The numbers of the listeners: connections and the memory that they hold."""

from collections.abc import Callable, Iterator, Sequence

from chordmq.fronts.listener import Listener
from chordmq.metrics import Metric


def listener_measures(listeners: Sequence[Listener]) -> Iterator[Metric]:
    """Yield what the listeners count, each under its name."""

    def rows(read: Callable[[Listener], float]) -> list[tuple[dict[str, str], float]]:
        return [({"listener": listener.name}, read(listener)) for listener in listeners]

    yield Metric(
        "chordmq_connections", "Connections that are open.", "gauge",
        rows(lambda listener: len(listener.connections)),
    )  # fmt: skip
    yield Metric(
        "chordmq_connections_accepted", "Connections accepted.", "counter",
        rows(lambda listener: listener.accepted),
    )  # fmt: skip
    yield Metric(
        "chordmq_connections_refused", "Connections refused because a limit was reached.",
        "counter", rows(lambda listener: listener.refused),
    )  # fmt: skip
    yield Metric(
        "chordmq_tls_handshakes_failed", "TLS connections that came to nothing.", "counter",
        rows(lambda listener: listener.handshakes_failed),
    )  # fmt: skip
    yield Metric(
        "chordmq_connection_memory_bytes",
        "Memory held by half-received requests and unsent answers.", "gauge",
        rows(lambda listener: listener.memory.used),
    )  # fmt: skip

"""The numbers of the Kafka front: requests by API."""

from collections.abc import Callable, Iterator

from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.dispatch import APIS
from chordmq.fronts.kafka.usage import Usage
from chordmq.metrics import Metric, counter


def kafka_measures(front: KafkaFront) -> Iterator[Metric]:
    """Yield how often each API was called, and what became of it."""

    def rows(read: Callable[[Usage], float]) -> list[tuple[dict[str, str], float]]:
        return [({"api": APIS[key].name}, read(usage)) for key, usage in front.usage.items()]

    yield counter("chordmq_kafka_bytes_in", "Bytes received.", front.bytes_in)
    yield counter("chordmq_kafka_bytes_out", "Bytes sent.", front.bytes_out)
    yield Metric(
        "chordmq_kafka_requests", "Requests taken.", "counter", rows(lambda usage: usage.requests)
    )
    yield Metric(
        "chordmq_kafka_request_failures", "Requests that ended their connection.", "counter",
        rows(lambda usage: usage.failures),
    )  # fmt: skip
    yield Metric(
        "chordmq_kafka_busy_seconds", "Time the event loop worked on requests.", "counter",
        rows(lambda usage: usage.busy_s),
    )  # fmt: skip

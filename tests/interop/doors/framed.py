"""The framed protocol, through a plain socket."""

from typing import Any

from tests.fronts.framed.client import Client
from tests.interop.doors.door import LOST, Lost, Sample
from tests.running_node import RunningNode


class Framed:
    """Carries values only; the time is that of arrival, and no value is an empty one."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        with Client(node.framed_address, f"PRODUCER topic={topic} ack=each") as client:
            client.send(sample.value or b"")
            answer = client.receive()
            assert answer.startswith(b"ACK "), answer

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        hello = f"CONSUMER topic={topic} mode=broadcast start=earliest"
        with Client(node.framed_address, hello) as client:
            return [Sample(LOST, _shown(value), LOST, LOST) for value in client.take(count)]

    def carried(self, sample: Sample) -> Sample:
        return Sample(None, sample.value or b"", (), LOST)


def _shown(value: bytes) -> Any:
    return value or Lost(b"", None)

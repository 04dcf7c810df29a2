"""The provider's protocol, through a client of its own."""

from tests.fronts.provider.client import Client
from tests.interop.doors.door import Sample
from tests.running_node import RunningNode


class Provider:
    """Carries everything."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        key, value, headers, timestamp = sample
        with Client(node.provider_address) as client:
            client.publish(topic, value, key=key, headers=headers, timestamp=timestamp)

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        with Client(node.provider_address) as client:
            client.subscribe(topic)
            return [
                Sample(one.key, one.value, one.headers, one.timestamp) for one in client.take(count)
            ]

    def carried(self, sample: Sample) -> Sample:
        return sample

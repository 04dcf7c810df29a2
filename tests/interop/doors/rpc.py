"""Cap'n Proto and gRPC, through clients that know the schema files only."""

import asyncio

from tests.fronts.rpc.clients import doors
from tests.fronts.rpc.contract import Row
from tests.interop.doors.door import Sample
from tests.running_node import RunningNode


class Rpc:
    """Carries everything."""

    front: str

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        row = Row(sample.value, sample.key, sample.headers, sample.timestamp)

        async def publish() -> None:
            async with doors(self.front) as door:
                await (await door.open(node)).publish(topic, [row])

        asyncio.run(publish())

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        async def take() -> list[Row]:
            async with doors(self.front) as door:
                subscription = await (await door.open(node)).subscribe(topic)
                return await subscription.take(count)

        rows = asyncio.run(take())
        return [Sample(row.key, row.value, row.headers, row.timestamp) for row in rows]

    def carried(self, sample: Sample) -> Sample:
        return sample


class Capnp(Rpc):
    """Cap'n Proto."""

    front = "capnp"


class Grpc(Rpc):
    """gRPC."""

    front = "grpc"

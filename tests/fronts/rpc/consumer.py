"""A consumer in a process of its own: takes messages, says so, and waits for its end."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.fronts.rpc.clients import doors


async def main(front: str, host: str, port: str, topic: str, group: str, count: str) -> None:
    address = (host, int(port))
    node: Any = SimpleNamespace(capnp_address=address, grpc_address=address)
    async with doors(front) as door:
        client = await door.open(node)
        wanted = {"shared": group, "credit": 20} if group else {}
        subscription = await client.subscribe(topic, **wanted)
        print("subscribed", flush=True)
        await subscription.take(int(count))
        print(f"has {count}", flush=True)
        await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))

"""A plain server on the `websockets` library: what it costs to hand out and store nothing.

`python -m benchmarks.websocket_plain PORT` speaks just enough of the gateway's messages to serve
the same clients: each message is a frame, framed once for all.
"""

import asyncio
import json
import sys
from itertools import count

from websockets.asyncio.server import ServerConnection, broadcast, serve

BUFFERED_MAX = 1 << 20
TURN = 100
"""Messages between two looks at how much clients have not taken yet."""


class Plain:
    """Everybody gets everything."""

    def __init__(self) -> None:
        self._clients: set[ServerConnection] = set()
        self._numbers = count()

    async def handle(self, client: ServerConnection) -> None:
        """Serve one client until it hangs up."""
        await client.send('{"type":"welcome"}')
        async for text in client:
            asked = json.loads(text)
            if asked["type"] == "subscribe":
                self._clients.add(client)
                await client.send('{"type":"subscribed"}')
            else:
                for _ in range(asked.get("count", 1)):
                    await self._hand_out(asked["value"])
                await client.send('{"type":"published"}')
        self._clients.discard(client)

    async def _hand_out(self, value: str) -> None:
        number = next(self._numbers)
        message = f'{{"type":"message","offset":{number},"value":{json.dumps(value)}}}'
        broadcast(self._clients, message)
        while number % TURN == 0 and self._is_behind():  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0.001)

    def _is_behind(self) -> bool:
        return any(
            client.transport.get_write_buffer_size() > BUFFERED_MAX for client in self._clients
        )


async def main(port: int) -> None:
    """Serve until the process is ended."""
    async with serve(Plain().handle, "127.0.0.1", port, compression=None) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

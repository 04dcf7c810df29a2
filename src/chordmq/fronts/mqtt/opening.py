"""Opens MQTT with its first client, over whatever that comes: TCP, TLS or a WebSocket."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.broker.security.auth import Authenticator
from chordmq.errors import ShuttingDown
from chordmq.fronts.listener import Listener
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.opening import Connect
from chordmq.loading import load_late
from chordmq.metrics import Metrics

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront


class MqttOpening:
    """What the front needs of the node, and the front as soon as somebody needs it."""

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        names: Names,
        authenticator: Authenticator | None,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.front: MqttFront | None = None
        self._parts = broker, settings, names, authenticator
        self._metrics = metrics
        self._tasks = tasks
        self._running: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_over = False

    async def opened(self) -> "MqttFront":
        """Return what all clients share."""
        async with self._lock:
            if self.front is None:
                await load_late("chordmq.fronts.mqtt.gate")
                self.front = await self._open()
            return self.front

    async def listen(self, listener: Listener) -> Connect:
        """Return what drives the clients of a listener."""
        front = await self.opened()
        from chordmq.fronts.mqtt.gate import mqtt_connection, serve_visitors

        serve_visitors(front, listener)
        return partial(mqtt_connection, front, listener)

    async def close(self) -> None:
        """Store what sessions have reached, after the last client has gone."""
        self._is_over = True
        if self._running is not None:
            if self.front is not None:
                await self.front.close()
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _open(self) -> "MqttFront":
        from chordmq.fronts.mqtt.front import MqttFront
        from chordmq.fronts.mqtt.measures import mqtt_measures

        if self._is_over:
            raise ShuttingDown("the node is shutting down")
        broker = self._parts[0]
        front = MqttFront(*self._parts)
        self._metrics.add(lambda: mqtt_measures(front))
        broker.topics.watchers.append(front.look_again)
        broker.permissions.listeners.append(front.look_again)
        self._running = self._tasks.create_task(front.run())
        await front.ready.wait()
        return front

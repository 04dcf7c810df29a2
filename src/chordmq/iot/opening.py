"""Opens the service that looks after devices when there are some, or somebody asks for them."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.errors import CannotStart
from chordmq.iot.settings import IotSettings
from chordmq.loading import load_late
from chordmq.metrics import Metrics

if TYPE_CHECKING:
    from chordmq.iot.service import Devices
    from chordmq.iot.store import Store

MESSAGE = "iotsphere/devices/x/shadow/update"
"""The name of a message to some device; those of all devices go to the same topic."""


class DevicesOpening:
    """What the service needs of the node, and the service as soon as it is needed."""

    def __init__(
        self,
        broker: Broker,
        settings: IotSettings,
        names: Names,
        retained_max: int,
        metrics: Metrics,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._names = names
        self._retained_max = retained_max
        self._metrics = metrics
        self._wanted = asyncio.Event()
        self._served = asyncio.Event()
        if broker.clustering is not None or settings.mongodb or settings.normalise:
            self.open()

    def open(self) -> None:
        """Look after devices from now on."""
        _ = self.service
        self._wanted.set()

    async def opened(self) -> None:
        """Look after devices from now on; return when that is so, and keep nobody waiting."""
        await load_late("chordmq.iot.service")
        self.open()
        await self._served.wait()

    @cached_property
    def service(self) -> "Devices":
        """Return what looks after devices."""
        from chordmq.iot.measures import device_measures
        from chordmq.iot.service import Devices

        broker, rules = self._broker, self._settings.rules
        service = Devices(broker, self._store(), rules, self._names, self._retained_max)
        if broker.clustering is not None:
            broker.clustering.replicas.on_turned.append(service.look_again)
        self._metrics.add(lambda: device_measures(service))
        return service

    async def run(self) -> None:
        """Serve devices from when there are some, until cancelled."""
        self._broker.topics.watchers.append(self._look)
        self._look()
        try:
            await self._wanted.wait()
            if "service" not in vars(self):
                await load_late("chordmq.iot.service")
            service = self.service
            self._served.set()  # by the time that somebody else has his turn
            await service.run()
        finally:
            self._served.set()  # for nobody may wait for what does not come any more

    def _look(self, *_: object) -> None:
        """Serve devices if there is a topic of their messages by now."""
        if self._broker.topics.find(self._names.destination(MESSAGE).topic) is not None:
            self._wanted.set()

    def _store(self) -> "Store":
        if not self._settings.mongodb:
            from chordmq.iot.store import LogStore

            return LogStore(self._broker)
        try:
            from chordmq.iot.mongodb import MongoStore
        except ImportError:
            raise CannotStart(
                "iot.mongodb needs a library: pip install 'chordmq[mongodb]'."
            ) from None
        return MongoStore(self._broker, self._settings.mongodb)

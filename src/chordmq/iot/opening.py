"""Opens the service that looks after devices, with the store that the settings name."""

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.errors import CannotStart
from chordmq.iot.service import Devices
from chordmq.iot.settings import IotSettings
from chordmq.iot.store import LogStore, Store


def open_devices(broker: Broker, settings: IotSettings, names: Names, retained_max: int) -> Devices:
    """Return the service; it serves when it is run."""
    service = Devices(broker, _store(broker, settings), settings.rules, names, retained_max)
    if broker.clustering is not None:
        broker.clustering.replicas.on_turned.append(service.look_again)
    return service


def _store(broker: Broker, settings: IotSettings) -> Store:
    if not settings.mongodb:
        return LogStore(broker)
    try:
        from chordmq.iot.mongodb import MongoStore
    except ImportError:
        raise CannotStart("iot.mongodb needs a library: pip install 'chordmq[mongodb]'.") from None
    return MongoStore(broker, settings.mongodb)

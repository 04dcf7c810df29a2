"""Opens the driver that an address names: `chordmq://`, `kafka://`, `rabbitmq://`, `redis://`."""

from collections.abc import Mapping
from importlib import import_module
from urllib.parse import urlsplit

from chordmq.drivers.adapter import MessageBrokerAdapter
from chordmq.drivers.errors import UnknownDriver

DRIVERS: Mapping[str, tuple[str, str, str]] = {
    "chordmq": ("chordmq.drivers.log", "LogDriver", ""),
    "kafka": ("chordmq.drivers.log", "LogDriver", ""),
    "rabbitmq": ("chordmq.drivers.rabbitmq", "RabbitDriver", "rabbitmq"),
    "rabbitmqs": ("chordmq.drivers.rabbitmq", "RabbitDriver", "rabbitmq"),
    "redis": ("chordmq.drivers.redis_streams", "RedisDriver", "redis"),
    "rediss": ("chordmq.drivers.redis_streams", "RedisDriver", "redis"),
}
"""Module, class, and the extra of the package that brings the library."""


def open_driver(address: str) -> MessageBrokerAdapter:
    """Return the driver of an address; raise UnknownDriver if there is none, or no library."""
    scheme = urlsplit(address).scheme
    if scheme not in DRIVERS:
        raise UnknownDriver(f"{scheme or address!r} is none of {', '.join(DRIVERS)}")
    module, name, extra = DRIVERS[scheme]
    try:
        driver = getattr(import_module(module), name)
    except ImportError:
        raise UnknownDriver(f"{scheme} needs a library: pip install 'chordmq[{extra}]'") from None
    opened: MessageBrokerAdapter = driver(address)
    return opened

"""Addresses: what the text in a source or a target means.

`/queues/:queue` and `/exchanges/:exchange/:key` are RabbitMQ's, with `%` before what has a meaning
of its own. Every other text is a name of ours: a queue's if there is one, a name with levels if it
has any (as in MQTT), else a topic's.
"""

from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote

from chordmq.broker.queues.exchanges import DEFAULT
from chordmq.broker.queues.places import key_of_name
from chordmq.broker.queues.virtual_host import HIERARCHICAL
from chordmq.errors import InvalidRequest

QUEUES, EXCHANGES = "/queues/", "/exchanges/"
MANAGEMENT = "/management"
NAME_BYTES_MAX = 255
SINGLE, REST = "+", "#"


class Place(Enum):
    """What an address names."""

    QUEUE = "queue"
    EXCHANGE = "exchange"
    LEVELS = "levels"
    NAME = "name"


class Address(NamedTuple):
    """Where messages go to or come from."""

    place: Place
    exchange: str
    key: str
    """The routing key; of a queue or topic, its name."""

    @property
    def pattern(self) -> str:
        """Return the routing keys that a filter over names with levels lets through."""
        return ".".join("*" if word == SINGLE else word for word in self.key.split("."))


def read_address(text: object) -> Address:
    """Return what an address names; raise InvalidRequest if it names nothing."""
    if not isinstance(text, str) or not text:
        raise InvalidRequest("an address is a text that is not empty")
    if text.startswith(QUEUES):
        return Address(Place.QUEUE, DEFAULT, _name(text, text.removeprefix(QUEUES)))
    if text.startswith(EXCHANGES):
        exchange, _, key = text.removeprefix(EXCHANGES).partition("/")
        if "/" in key:
            raise InvalidRequest(f"{text[:100]!r}: a slash in a routing key is written %2F")
        return Address(Place.EXCHANGE, _name(text, exchange), _text(text, key))
    if text.startswith("/"):
        raise InvalidRequest(
            f"{text[:100]!r} is neither /queues/:queue nor /exchanges/:exchange/:key"
        )
    if "/" in text:
        return Address(Place.LEVELS, HIERARCHICAL, _bounded(key_of_name(text)))
    return Address(Place.NAME, DEFAULT, _bounded(text))


def _name(address: str, part: str) -> str:
    if not part or "/" in part:
        raise InvalidRequest(f"{address[:100]!r} has no name, or one with a slash not written %2F")
    return _text(address, part)


def _text(address: str, part: str) -> str:
    try:
        return _bounded(unquote(part, errors="strict"))
    except UnicodeDecodeError:
        raise InvalidRequest(f"{address[:100]!r} is not UTF-8 behind its %") from None


def _bounded(name: str) -> str:
    if len(name.encode()) > NAME_BYTES_MAX:
        raise InvalidRequest(f"a name has at most {NAME_BYTES_MAX} bytes")
    return name

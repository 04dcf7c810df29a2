"""Hierarchical names as RabbitMQ's routing keys, and the exchanges that a filter hangs on (pure).

`iotsphere/devices/d7` is the key `iotsphere.devices.d7`. What would mean something else in a key
is written as a percent sign and two hexadecimal digits. Messages are published to one exchange;
behind it there is one for each first level, and behind that one for each second level, as far as
somebody reads there.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

from chordmq.broker.subscriptions import ONE, REST, SEPARATOR, check_filter, check_name
from chordmq.drivers.errors import Refused

KEY_BYTES_MAX = 255
ROOT = "chordmq"
WORD, WORDS = "*", "#"

_SPECIAL = re.compile(r"[%.*#]")


class Link(NamedTuple):
    """An exchange that gets what another one lets through."""

    exchange: str
    source: str
    key: str


def key_of(name: str) -> str:
    """Return the routing key of a name; raise Refused for one too long."""
    check_name(name)
    key = ".".join(map(_word, name.split(SEPARATOR)))
    if len(key.encode()) > KEY_BYTES_MAX:
        raise Refused(f"{name[:100]!r} is longer than RabbitMQ's {KEY_BYTES_MAX} bytes")
    return key


def name_of(key: str) -> str:
    """Return the name that a routing key stands for."""
    return SEPARATOR.join(map(unquote, key.split(".")))


def binding_of(wanted: str) -> str:
    """Return the key by which a queue is bound to get what a filter matches."""
    check_filter(wanted)
    wild = {ONE: WORD, REST: WORDS}
    return ".".join(wild.get(level) or _word(level) for level in wanted.split(SEPARATOR))


def links_to(wanted: str) -> list[Link]:
    """Return the exchanges between the first one and the queue of a filter, in their order."""
    links: list[Link] = []
    source = ROOT
    levels = wanted.split(SEPARATOR)
    for depth, level in enumerate(levels[:2], start=1):
        if level in (ONE, REST):
            break
        branch = ".".join(map(_word, levels[:depth]))
        links.append(Link(f"{ROOT}.{branch}", source, f"{branch}.{WORDS}"))
        source = links[-1].exchange
    return links


def _word(level: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", level)

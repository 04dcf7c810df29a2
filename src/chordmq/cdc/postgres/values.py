"""Values of PostgreSQL, from their text to what Debezium puts into its events (pure)."""

import re
from base64 import b64encode
from binascii import unhexlify
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from struct import pack
from typing import Any, NamedTuple

import msgspec

from chordmq.cdc.postgres.arrays import read_array

Reader = Callable[[bytes], Any]
"""Turns a value's text into what the event shows."""

UNAVAILABLE = "__debezium_unavailable_value"
"""Shown for a large value that an update has left alone, and that was not sent therefore."""
UNAVAILABLE_BYTES = b64encode(UNAVAILABLE.encode()).decode()

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  timestamps without a zone are counted, not moved
EPOCH_DAY = date(1970, 1, 1).toordinal()
DAY_US = 86_400_000_000
MONTH_US = DAY_US * 30.4375
"""A twelfth of 365.25 days: Debezium's idea of a month in a duration."""
VARIABLE = -1
MONEY_SCALE = 2
INFINITE_US = {b"infinity": 9223372036825200000, b"-infinity": -9223372036832400000}
INFINITE_DAYS = {b"infinity": 2**31 - 1, b"-infinity": -(2**31)}
FRACTION_MS_MAX = 3
"""Up to so many digits a time is told in milliseconds, with more in microseconds."""


class Type(NamedTuple):
    """A type as the catalogue describes it; a domain stands for its base."""

    name: str
    kind: str = "b"
    """b base, e enumeration, d domain, r range, c composite, m multirange."""
    element: int = 0
    """What an array is made of."""
    base: int = 0
    modifier: int = -1
    category: str = ""


def reader_of(oid: int, modifier: int, types: Mapping[int, Type], decimals: str) -> Reader | None:
    """Return how values of a type are read, or None if events do not show them."""
    found = types.get(oid)
    if found is None:
        return None
    if found.kind == "d":
        inner = found.modifier if modifier < 0 else modifier
        return reader_of(found.base, inner, types, decimals)
    if found.category == "A" and found.element:
        element = reader_of(found.element, modifier, types, decimals)
        return None if element is None else partial(read_array, read=element)
    if found.kind in "er":
        return text
    if found.name in BY_MODIFIER:
        return BY_MODIFIER[found.name](modifier)
    if found.name in ("numeric", "money"):
        return _decimal_reader(found.name, modifier, decimals)
    return READERS.get(found.name)


def placeholder(oid: int, types: Mapping[int, Type]) -> Any:
    """Return what stands for a value that was not sent."""
    found = types.get(oid)
    if found is None:
        return UNAVAILABLE
    if found.kind == "d":
        return placeholder(found.base, types)
    if found.category == "A" and found.element:
        return [placeholder(found.element, types)]
    return UNAVAILABLE_BYTES if found.name == "bytea" else UNAVAILABLE


def text(data: bytes) -> str:
    """Read what is told as it is."""
    return data.decode()


def truth(data: bytes) -> bool:
    """Read t or f."""
    return data == b"t"


def number(data: bytes) -> float | str:
    """Read a floating-point number; JSON has no word for those that are not finite."""
    value = float(data)
    if value - value == 0.0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def binary(data: bytes) -> str:
    r"""Read bytes, which come as \x and hexadecimal digits."""
    return b64encode(unhexlify(data[2:])).decode()


def days(data: bytes) -> int:
    """Read a date as days since 1970."""
    infinite = INFINITE_DAYS.get(data)
    return (
        date.fromisoformat(data.decode()).toordinal() - EPOCH_DAY if infinite is None else infinite
    )


def time_us(data: bytes) -> int:
    """Read a time of the day as microseconds."""
    hours, minutes, seconds = data.split(b":")
    whole, _, fraction = seconds.partition(b".")
    total = (int(hours) * 60 + int(minutes)) * 60 + int(whole)
    return total * 1_000_000 + int(fraction.ljust(6, b"0"))


def time_ms(data: bytes) -> int:
    """Read a time of the day as milliseconds."""
    return time_us(data) // 1000


def timestamp_us(data: bytes) -> int:
    """Read a timestamp without zone as microseconds since 1970."""
    infinite = INFINITE_US.get(data)
    if infinite is not None:
        return infinite
    since = datetime.fromisoformat(data.decode()) - EPOCH
    return since.days * DAY_US + since.seconds * 1_000_000 + since.microseconds


def timestamp_ms(data: bytes) -> int:
    """Read a timestamp without zone as milliseconds since 1970."""
    infinite = INFINITE_US.get(data)
    return (timestamp_us(data) if infinite is None else infinite) // 1000


def zoned_timestamp(data: bytes) -> str:
    """Read a timestamp with zone; our sessions are in UTC, so that most need no calendar."""
    if data[-3:] == b"+00" and data[10:11] == b" ":
        whole, _, fraction = data[:-3].decode().partition(".")
        return f"{whole[:10]}T{whole[11:]}.{fraction:0<6}Z"
    if data in INFINITE_US:
        return data.decode()
    when = datetime.fromisoformat(_whole_zone(data.decode())).astimezone(UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if when.year > 999 else when.isoformat()


def zoned_time(data: bytes) -> str:
    """Read a time of the day with zone, as it is in UTC."""
    moment = f"2000-01-02T{_whole_zone(data.decode())}"
    when = datetime.fromisoformat(moment).astimezone(UTC)
    fraction = f".{when.microsecond:06}".rstrip("0").rstrip(".")
    return when.strftime("%H:%M:%S") + fraction + "Z"


def _whole_zone(value: str) -> str:
    """Write a zone of hours only so that Python reads it."""
    return value + ":00" if value[-3] in "+-" else value


_UNITS = {"year": 12 * MONTH_US, "mon": MONTH_US, "day": DAY_US}
_INTERVAL = re.compile(r"(-?\d+) (year|mon|day)s?|(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def duration(data: bytes) -> int:
    """Read an interval as microseconds; a month is a twelfth of 365.25 days."""
    total = 0.0
    for count, unit, sign, hours, minutes, seconds, fraction in _INTERVAL.findall(data.decode()):
        if unit:
            total += int(count) * _UNITS[unit]
            continue
        moment = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
        micros = moment * 1_000_000 + int((fraction or "0").ljust(6, "0"))
        total += -micros if sign else micros
    return round(total)


def bits(data: bytes) -> str:
    """Read a row of bits as the bytes of a number, the lowest first."""
    value = int(data or b"0", 2)
    return b64encode(value.to_bytes((value.bit_length() + 7) // 8, "little")).decode()


def point(data: bytes) -> dict[str, Any]:
    """Read a point as its coordinates and in the well-known binary form."""
    x, y = map(float, data.strip(b"()").split(b","))
    return {"x": x, "y": y, "wkb": b64encode(pack("<BIdd", 1, 1, x, y)).decode(), "srid": None}


_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def hstore(data: bytes) -> str:
    """Read keys and values as the text of a JSON object."""
    pairs = {
        _ESCAPED.sub(r"\1", found[1]): None if found[2] is None else _ESCAPED.sub(r"\1", found[2])
        for found in _PAIR.finditer(data.decode())
    }
    return msgspec.json.encode(pairs).decode()


def unscaled(value: Decimal, scale: int) -> str:
    """Return a decimal number as Kafka Connect does: its digits as one big integer, in base64."""
    digits = int(value.scaleb(scale).to_integral_value())
    size = (digits + (digits < 0)).bit_length() // 8 + 1
    return b64encode(digits.to_bytes(size, "big", signed=True)).decode()


def _decimal_reader(name: str, modifier: int, decimals: str) -> Reader:
    clean = _money if name == "money" else bytes.decode
    scale = MONEY_SCALE if name == "money" else VARIABLE
    if modifier >= 0:
        scale = (modifier - 4) & 0x7FF
    forms = {"string": _decimal_text, "double": _decimal_double, "precise": _decimal_precise}
    return partial(forms[decimals], clean=clean, scale=scale)


def _money(data: bytes) -> str:
    """Return an amount without the signs of its currency."""
    amount = re.sub(rb"[^0-9.]", b"", data).decode()
    return f"-{amount}" if data.startswith((b"-", b"(")) else amount


def _decimal_text(data: bytes, clean: Callable[[bytes], str], scale: int) -> Any:
    return clean(data)


def _decimal_double(data: bytes, clean: Callable[[bytes], str], scale: int) -> Any:
    return number(clean(data).encode())


def _decimal_precise(data: bytes, clean: Callable[[bytes], str], scale: int) -> Any:
    value = Decimal(clean(data))
    if not value.is_finite():
        return None
    if scale != VARIABLE:
        return unscaled(value, scale)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "only finite numbers come here"
    places = max(0, -exponent)
    return {"scale": places, "value": unscaled(value, places)}


def _by_fraction(in_ms: Reader, in_us: Reader, modifier: int) -> Reader:
    return in_ms if 0 <= modifier <= FRACTION_MS_MAX else in_us


def _bit_reader(modifier: int) -> Reader:
    return (lambda data: data == b"1") if modifier == 1 else bits


BY_MODIFIER: dict[str, Callable[[int], Reader]] = {
    "time": partial(_by_fraction, time_ms, time_us),
    "timestamp": partial(_by_fraction, timestamp_ms, timestamp_us),
    "bit": _bit_reader,
}

READERS: dict[str, Reader] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    **dict.fromkeys(("float4", "float8"), number),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "citext", "uuid", "tsvector"), text
    ),
    **dict.fromkeys(("json", "jsonb", "xml", "ltree", "isbn"), text),
    **dict.fromkeys(("inet", "cidr", "macaddr", "macaddr8"), text),
    "bool": truth,
    "bytea": binary,
    "date": days,
    "timestamptz": zoned_timestamp,
    "timetz": zoned_time,
    "interval": duration,
    "varbit": bits,
    "point": point,
    "hstore": hstore,
}
"""Types by their names in the catalogue; ranges and enumerations are told as text."""

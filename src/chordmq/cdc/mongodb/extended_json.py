"""Documents as text, in the two forms of extended JSON that Debezium writes (pure).

Documents are in the old strict form, keys and descriptions of updates in the relaxed form.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from bson import DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS

_FLAGS = ((2, "i"), (8, "m"), (16, "s"), (64, "x"))
_DATE_MS_MAX = 253_402_300_799_999
"""The end of the year 9999: later dates are told as numbers."""


def strict(document: Any) -> str | None:
    """Return a document as `before` and `after` show it."""
    return None if document is None else _STRICT.encode(_told(document)).decode()


def relaxed(value: Any) -> str:
    """Return a value as updated fields show it."""
    return _RELAXED.encode(_plain(value)).decode()


def key_text(value: Any) -> str:
    """Return an id as keys show it, with Debezium's blanks: keys are compared byte by byte."""
    if type(value) is ObjectId:
        return f'{{"$oid": "{value}"}}'
    text = relaxed(value)
    if text[0] not in "{[":
        return text
    return json.dumps(json.loads(text), separators=(",", ": "), ensure_ascii=False)


def _told(value: Any) -> Any:
    """Return a value without those that msgspec would write in its own way."""
    kind = type(value)
    if kind is dict:
        return {name: _told(inner) for name, inner in value.items()}
    if kind is list:
        return [_told(inner) for inner in value]
    if kind is Int64:
        return {"$numberLong": str(int(value))}
    return _bytes(value) if kind is bytes else value


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {name: _plain(inner) for name, inner in value.items()}
    if kind is list:
        return [_plain(inner) for inner in value]
    if kind is Int64:
        return int(value)
    return _new_bytes(value, 0) if kind is bytes else value


def _bytes(value: bytes, subtype: int = 0) -> dict[str, Any]:
    return {"$binary": b64encode(value).decode(), "$type": f"{subtype:02x}"}


def _new_bytes(value: bytes, subtype: int) -> dict[str, Any]:
    return {"$binary": {"base64": b64encode(value).decode(), "subType": f"{subtype:02x}"}}


def _regex(value: Regex[Any]) -> dict[str, Any]:
    options = "".join(letter for bit, letter in _FLAGS if value.flags & bit)
    return {"$regex": value.pattern, "$options": options}


def _code(value: Code) -> dict[str, Any]:
    text = {"$code": str(value)}
    return text if value.scope is None else text | {"$scope": _told(dict(value.scope))}


def _iso(value: DatetimeMS) -> dict[str, Any]:
    number = int(value)
    if not 0 <= number <= _DATE_MS_MAX:
        return {"$date": {"$numberLong": str(number)}}
    text = value.as_datetime().isoformat(timespec="milliseconds" if number % 1000 else "seconds")
    return {"$date": text.replace("+00:00", "") + "Z"}


_SHARED: dict[type, Callable[[Any], Any]] = {
    ObjectId: lambda value: {"$oid": str(value)},
    Decimal128: lambda value: {"$numberDecimal": str(value)},
    Regex: _regex,
    Timestamp: lambda value: {"$timestamp": {"t": value.time, "i": value.inc}},
    Code: _code,
    MinKey: lambda value: {"$minKey": 1},
    MaxKey: lambda value: {"$maxKey": 1},
    DBRef: lambda value: (
        {"$ref": value.collection, "$id": _told(value.id)}
        | ({"$db": value.database} if value.database else {})
    ),
}
_STRICT_FORMS = _SHARED | {
    DatetimeMS: lambda value: {"$date": int(value)},
    Binary: lambda value: _bytes(value, value.subtype),
}
_RELAXED_FORMS = _SHARED | {
    DatetimeMS: _iso,
    Binary: lambda value: _new_bytes(value, value.subtype),
}


def _writer(forms: Mapping[type, Callable[[Any], Any]]) -> msgspec.json.Encoder:
    def hook(value: Any) -> Any:
        form = forms.get(type(value))
        if form is None:
            raise TypeError(f"values of the type {type(value).__name__} have no form in JSON")
        return form(value)

    return msgspec.json.Encoder(enc_hook=hook)


_STRICT = _writer(_STRICT_FORMS)
_RELAXED = _writer(_RELAXED_FORMS)

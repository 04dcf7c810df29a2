"""Events of change streams and documents of snapshots as changes (pure)."""

from collections.abc import Mapping
from typing import Any

import msgspec
from bson import Timestamp
from bson.errors import BSONError

from chordmq.cdc.change import CREATE, DELETE, READ, UPDATE, Change, Json, Place, Spoiled
from chordmq.cdc.mongodb.extended_json import key_text, relaxed, strict
from chordmq.cdc.selection import Selection
from chordmq.version import VERSION

OPERATIONS = {"insert": CREATE, "update": UPDATE, "replace": UPDATE, "delete": DELETE}
TOO_LARGE = (
    "the event is larger than the 16 MB that this MongoDB can send; from 6.0.9 and 7.0 on it is "
    "sent in parts. With `before_images: false`, or `images: off`, events are smaller"
)
NOTHING = b"null"

_FAULTS = (TypeError, ValueError, OverflowError, RecursionError, BSONError, msgspec.MsgspecError)

_encode = msgspec.json.Encoder().encode

Document = Mapping[str, Any]


def place_of(event: Document) -> Place:
    """Return the collection of an event."""
    return Place(event["ns"]["db"], event["ns"]["coll"])


class Events:
    """Makes the changes of one deployment."""

    def __init__(self, name: str, selection: Selection) -> None:
        self._name = name
        self._selection = selection

    def told(self, event: Document) -> Change | Spoiled:
        """Return what an event of a change stream means."""
        place, identity = place_of(event), event["_id"]["_data"]
        wall_ms = (
            int(event["wallTime"]) if "wallTime" in event else event["clusterTime"].time * 1000
        )
        time = event["clusterTime"]
        lsid = event.get("lsid")
        try:
            source = self._source(place, wall_ms * 1000, time.inc) | {
                "lsid": strict(lsid) if lsid else None,
                "txnNumber": int(event["txnNumber"]) if "txnNumber" in event else None,
                "wallTime": wall_ms,
            }
            return Change(
                op=OPERATIONS[event["operationType"]],
                place=place,
                key=self.key(event["documentKey"]["_id"]),
                before=self._shown(place, event.get("fullDocumentBeforeChange")),
                after=self._shown(place, event.get("fullDocument")),
                source=_encode(source),
                time_us=wall_ms * 1000,
                id=identity,
                description=self._description(place, event.get("updateDescription")),
            )
        except _FAULTS as error:
            return Spoiled(place, identity, f"a value cannot be told: {error}")

    def too_large(self, event: Document) -> Spoiled:
        """Return that an event cannot be sent by the server; only its key is known."""
        key = self.key(event["documentKey"]["_id"])
        return Spoiled(place_of(event), event["_id"]["_data"], TOO_LARGE, key)

    def read(
        self, place: Place, document: Document, time: Timestamp, mark: str
    ) -> Change | Spoiled:
        """Return a document of a snapshot."""
        identity = f"{time.time}.{time.inc}-{place}-{key_text(document['_id'])}"[:200]
        time_us = time.time * 1_000_000
        try:
            source = self._source(place, time_us, -1) | {"snapshot": mark}
            after, key = self._shown(place, document), self.key(document["_id"])
        except _FAULTS as error:
            return Spoiled(place, identity, f"a value cannot be told: {error}")
        return Change(READ, place, key, None, after, _encode(source), time_us, identity, NOTHING)

    def key(self, value: Any) -> Json:
        """Return the key of a document."""
        return _encode({"id": key_text(value)})

    def _shown(self, place: Place, document: Any) -> Json | None:
        if document is None:
            return None
        if not self._selection.tells_all_columns:
            document = shown(document, place, self._selection)
        return _encode(strict(document))

    def _description(self, place: Place, description: Document | None) -> Json:
        if description is None:
            return NOTHING
        updated: Any = description.get("updatedFields") or {}
        removed = description.get("removedFields") or None
        if not self._selection.tells_all_columns:
            updated = shown(updated, place, self._selection)
            removed = [
                name for name in removed or () if self._selection.column(place, name) is not None
            ] or None
        truncated = [
            {"field": one["field"], "size": int(one["newSize"])}
            for one in description.get("truncatedArrays") or ()
        ]
        return _encode(
            {
                "removedFields": removed,
                "updatedFields": relaxed(updated),
                "truncatedArrays": truncated or None,
            }
        )

    def _source(self, place: Place, time_us: int, order: int) -> dict[str, Any]:
        return {
            "version": VERSION,
            "connector": "mongodb",
            "name": self._name,
            "ts_ms": time_us // 1000,
            "snapshot": "false",
            "db": place.namespace,
            "sequence": None,
            "ts_us": time_us,
            "ts_ns": time_us * 1000,
            "collection": place.name,
            "ord": order,
            "lsid": None,
            "txnNumber": None,
            "wallTime": None,
        }


def shown(
    document: Document, place: Place, selection: Selection, above: str = ""
) -> dict[str, Any]:
    """Return a document without fields that are not told, under the names that are; ids stay."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        path = f"{above}{name}"
        if path == "_id":
            found[name] = value
            continue
        told = selection.column(place, path)
        if told is None:
            continue
        label = told.name if told.name != path else name
        if told.mask is not None:
            found[label] = told.mask
        elif isinstance(value, dict):
            found[label] = shown(value, place, selection, f"{path}.")
        else:
            found[label] = value
    return found

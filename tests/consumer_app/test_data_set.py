"""The local data set: what is stored together, what queries see, what an export holds."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chordmq.codecs.provider.frames import Type, message_id, write_push
from chordmq.consumer_app.data_set import DataSet, Wanted
from chordmq.consumer_app.pushes import Frame, split
from chordmq.records.record import Record


def pushed(offset: int, key: bytes, value: bytes | None, partition: int = 0) -> Frame:
    out: list[bytes] = []
    write_push(out, partition, Record(offset, 1000 + offset, key, value, (("h", b"x"),)), 1)
    (frame,) = split(bytearray(b"".join(out)))
    return frame


def marker(kind: Type, offset: int, partition: int = 0) -> Frame:
    payload = json.dumps({"topic": "t", "refresh": "", "partitions": 1}).encode()
    return Frame(kind, message_id(partition, offset), payload)


def values(data: DataSet, **wanted: object) -> list[object]:
    return [row["value"] for row in data.find(Wanted(**wanted))]  # type: ignore[arg-type]


def test_queries_by_key_time_text_and_page(tmp_path: Path) -> None:
    """D13: queries by key, range, text, newest per key, and paging."""
    with closing(DataSet(tmp_path)) as data:
        data.apply(
            [pushed(n, b"k%d" % (n % 3), b"value %d" % n) for n in range(9)]
            + [pushed(9, b"k2", None)]
        )
        assert values(data, key=b"k1") == ["value 1", "value 4", "value 7"]
        assert values(data, start_ms=1002, stop_ms=1004) == ["value 2", "value 3"]
        assert values(data, text="e 5") == ["value 5"]
        assert values(data, limit=2, after=(0, 3)) == ["value 4", "value 5"]
        newest = data.newest(b"k0")
        assert newest is not None
        assert (newest["value"], newest["headers"]) == ("value 6", [{"name": "h", "value": "x"}])
        assert data.newest(b"k2") is None
        assert [row["value"] for row in data.newest_of_all(b"", 10)] == ["value 6", "value 7"]
        assert [row["key"] for row in data.newest_of_all(b"k0", 1)] == ["k1"]


def test_a_refresh_is_built_aside_and_swapped(tmp_path: Path) -> None:
    """D13: queries see the old or the new data set; a restart in between changes nothing."""
    with closing(DataSet(tmp_path)) as data:
        data.apply([pushed(0, b"a", b"old"), marker(Type.RESET, 1), pushed(2, b"a", b"half")])
        assert values(data) == ["old"]
    with closing(DataSet(tmp_path)) as data:
        assert values(data) == ["old"]
        assert data.positions() == {0: 3}
        data.apply([marker(Type.RESET, 3), pushed(4, b"a", b"new")])
        assert values(data) == ["old"]
        data.apply([marker(Type.READY, 5), pushed(6, b"b", b"live")])
        assert values(data) == ["new", "live"]
        newest = data.newest(b"a")
        assert newest is not None
        assert newest["value"] == "new"
        target = tmp_path / "export.db"
        data.export(target)
    with closing(sqlite3.connect(target)) as exported:
        assert exported.execute("SELECT value FROM messages").fetchall() == [(b"new",), (b"live",)]


def test_what_comes_again_is_stored_once_and_what_fails_not_at_all(tmp_path: Path) -> None:
    """D13: messages and positions change together."""
    with closing(DataSet(tmp_path)) as data:
        data.apply([pushed(0, b"a", b"1"), pushed(1, b"a", b"2")])
        data.apply([pushed(1, b"a", b"2"), pushed(2, b"a", b"3")])
        assert values(data) == ["1", "2", "3"]
        with pytest.raises(ValueError, match=r".+"):
            data.apply([pushed(3, b"a", b"4"), Frame(Type.READY, message_id(0, 4), b"no JSON")])
        assert values(data) == ["1", "2", "3"]
        assert data.positions() == {0: 3}

"""The local data set: what is stored together, what queries see, what an export holds."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chordmq.clock import SystemClock
from chordmq.codecs.provider.frames import Type, message_id, write_push
from chordmq.consumer_app import segments
from chordmq.consumer_app.data_set import DataSet, Wanted
from chordmq.consumer_app.pushes import Frame, split
from chordmq.consumer_app.segments import Segments
from chordmq.records.record import Record
from chordmq.storage.settings import LogSettings


def opened(directory: Path) -> DataSet:
    return DataSet(directory, SystemClock())


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
    with closing(opened(tmp_path)) as data:
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
        data.apply([pushed(10, b"k0", b"newest")])
        assert [row["value"] for row in data.newest_of_all(b"", 10)] == ["newest", "value 7"]


def test_a_refresh_is_built_aside_and_swapped(tmp_path: Path) -> None:
    """D13: queries see the old or the new data set; a restart in between changes nothing."""
    with closing(opened(tmp_path)) as data:
        data.apply([pushed(0, b"a", b"old"), marker(Type.RESET, 1), pushed(2, b"a", b"half")])
        assert values(data) == ["old"]
    with closing(opened(tmp_path)) as data:
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
    with closing(opened(tmp_path)) as data:
        data.apply([pushed(0, b"a", b"1"), pushed(1, b"a", b"2")])
        data.apply([pushed(1, b"a", b"2"), pushed(2, b"a", b"3")])
        assert values(data) == ["1", "2", "3"]
        with pytest.raises(ValueError, match=r".+"):
            data.apply([pushed(3, b"a", b"4"), Frame(Type.READY, message_id(0, 4), b"no JSON")])
        assert values(data) == ["1", "2", "3"]
        assert data.positions() == {0: 3}


def test_messages_lie_in_segments_and_the_index_in_sqlite(tmp_path: Path) -> None:
    """D13: local segment storage; offsets that the topic does not have leave no holes."""
    with closing(opened(tmp_path)) as data:
        data.apply([pushed(n, b"k%d" % n, b"value %d" % n) for n in range(7, 400, 3)])
        data.apply([pushed(500, b"k", b"last")])
    log = b"".join(path.read_bytes() for path in sorted((tmp_path / "segments/0").glob("*.log")))
    assert log.count(b"value") == len(range(7, 400, 3))
    with closing(sqlite3.connect(tmp_path / "data.db")) as index:
        columns = [row[1] for row in index.execute("PRAGMA table_info(messages)")]
    assert "value" not in columns
    with closing(opened(tmp_path)) as data:
        assert values(data, key=b"k100") == ["value 100"]
        assert values(data, text="39") == [f"value {n}" for n in (139, 391, 394, 397)]
        assert values(data, after=(0, 397)) == ["last"]


def test_what_a_crash_leaves_beyond_the_index_is_cut(tmp_path: Path) -> None:
    """D13: segments are written first, and nothing of them counts before the index has it."""
    with closing(opened(tmp_path)) as data:
        data.apply([pushed(0, b"a", b"1")])
    torn = Segments(tmp_path / "segments", SystemClock())
    torn.append(0, [Record(1, 5, b"a", b"torn", ())])
    torn.close()
    with closing(opened(tmp_path)) as data:
        assert values(data) == ["1"]
        data.apply([pushed(1, b"a", b"2"), pushed(2, b"a", b"3")])
        assert values(data) == ["1", "2", "3"]


def test_segments_of_a_replaced_data_set_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D13: a refresh does not fill the disk."""
    monkeypatch.setattr(segments, "SETTINGS", LogSettings(segment_bytes=100_000, retention_ms=-1))
    with closing(opened(tmp_path)) as data:
        for edition in range(4):
            start = edition * 1000
            data.apply(
                [marker(Type.RESET, start)]
                + [pushed(start + n, b"k", bytes([65 + edition]) * 2000) for n in range(1, 400)]
                + [marker(Type.READY, start + 400)]
            )
        assert len(values(data, limit=1000)) == 399
        assert set(values(data, limit=1000)) == {"D" * 2000}
    size = sum(path.stat().st_size for path in (tmp_path / "segments/0").glob("*.log"))
    assert size < 2000 * 400 * 2


def test_an_export_is_taken_over_with_its_positions(tmp_path: Path) -> None:
    """D13: SQLite export and import."""
    frames = [pushed(n, b"k%d" % n, bytes([n, 255]), partition=n % 2) for n in range(20)]
    with closing(opened(tmp_path / "first")) as data:
        data.apply([*frames, pushed(20, b"k3", None)])
        data.export(tmp_path / "export.db")
        before = data.find(Wanted())
    with closing(opened(tmp_path / "second")) as data:
        assert data.load(tmp_path / "export.db") == 21
        assert data.find(Wanted()) == before
        assert data.newest(b"k3") is None
        assert data.positions() == {0: 21, 1: 20}
        data.apply([pushed(19, b"k19", b"again", partition=1), pushed(21, b"k19", b"new")])
        assert len(values(data)) == 22
    (tmp_path / "broken.db").write_bytes(b"no database at all, and long enough to be looked at")
    with closing(opened(tmp_path / "third")) as data:
        with pytest.raises(ValueError, match="no exported data set"):
            data.load(tmp_path / "broken.db")
        assert values(data) == []

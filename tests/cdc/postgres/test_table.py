"""Rows of a table, whole and in part."""

from chordmq.cdc.postgres.pgoutput import UNCHANGED, Column, Relation
from chordmq.cdc.postgres.table import Table, quoted
from chordmq.cdc.postgres.values import Type
from chordmq.cdc.selection import Selection
from chordmq.cdc.settings import Columns, Names

TYPES = {1: Type("int4"), 2: Type("text"), 3: Type("bytea"), 4: Type("timestamptz")}
COLUMNS = (Column("id", 1, -1, True), Column("name", 2, -1, False), Column("data", 3, -1, False))


def table(key: list[str], columns: tuple[Column, ...] = COLUMNS) -> Table:
    relation = Relation(16, "public", "items", "d", columns)
    return Table(relation, key, TYPES, Selection(Names(), Columns()), "precise")


def test_a_row_shows_what_was_sent_null_and_what_was_not_sent() -> None:
    found = table(["id"])
    assert found.row([b"1", None, UNCHANGED]) == {
        "id": 1,
        "name": None,
        "data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    }


def test_the_whole_old_row_fills_what_was_not_sent() -> None:
    found = table(["id"])
    assert found.filled([b"1", b"new", UNCHANGED], [b"1", b"old", b"\\x00"]) == [
        b"1", b"new", b"\\x00",
    ]  # fmt: skip


def test_a_key_has_the_order_of_the_primary_key() -> None:
    found = table(["name", "id"])
    assert list(found.key([b"1", b"a", None]) or {}) == ["name", "id"]
    assert table([]).key([b"1", b"a", None]) is None


def test_texts_are_ordered_by_their_bytes_here_and_there() -> None:
    found = table(["name", "id"])
    assert found.query_order == ['"name" COLLATE "C"', '"id"']
    assert found.order(["ä", "2"]) > found.order(["z", "10"])
    assert found.order(["a", "10"]) > found.order(["a", "9"])


def test_a_snapshot_goes_on_only_after_keys_whose_order_is_known() -> None:
    assert table(["id"]).can_resume
    assert not table([]).can_resume
    assert not table(["at"], (Column("at", 4, -1, True),)).can_resume


def test_a_quote_in_a_name_is_doubled() -> None:
    assert quoted('a"b') == '"a""b"'

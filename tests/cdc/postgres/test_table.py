"""Rows of a table, whole and in part."""

import json

import pytest

from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.pgoutput import UNCHANGED, Column, Relation, Tuple
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
    assert json.loads(found.row([b"1", None, UNCHANGED])) == {
        "id": 1,
        "name": None,
        "data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    }


def test_the_whole_old_row_fills_what_was_not_sent() -> None:
    found = table(["id"])
    assert found.filled([b"1", b"new", UNCHANGED], [b"1", b"old", b"\\x00"]) == [
        b"1", b"new", b"\\x00",
    ]  # fmt: skip


def test_an_old_row_that_is_only_a_key_fills_the_key() -> None:
    found = table(["name"])
    old: Tuple = [None, b"a", None]
    assert found.filled([b"1", UNCHANGED, UNCHANGED], old) == [b"1", b"a", UNCHANGED]
    with pytest.raises(Malformed, match="name"):
        found.key([b"1", UNCHANGED, None])


def test_names_and_masks_are_told_as_they_are() -> None:
    columns = (Column('100%s "x"', 1, -1, True), Column("card", 2, -1, False))
    relation = Relation(16, "public", "items", "d", columns)
    selection = Selection(Names(), Columns(mask={".*card": "%b"}))
    found = Table(relation, ['100%s "x"'], TYPES, selection, "precise")
    assert json.loads(found.row([b"1", b"4711"])) == {'100%s "x"': 1, "card": "%b"}
    assert found.key([b"1", b"4711"]) == b'{"100%s \\"x\\"":1}'


def test_a_key_has_the_order_of_the_primary_key() -> None:
    found = table(["name", "id"])
    assert found.key([b"1", b"a", None]) == b'{"name":"a","id":1}'
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

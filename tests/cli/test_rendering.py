"""Records become text and text becomes records, without loss."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cli.rendering import compile_format, from_json, from_line, readable, to_json
from chordmq.records.record import Record

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
HEADERS = st.dictionaries(NAMES, st.none() | st.binary(max_size=5), max_size=3)


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20), HEADERS)
def test_a_record_survives_its_way_through_json(
    key: bytes | None, value: bytes | None, headers: dict[str, bytes | None]
) -> None:
    """Nothing is lost between consume --json and produce --json-lines, text or not."""
    record = Record(5, 1_000, key, value, tuple(headers.items()))
    parsed = from_json(to_json("t", 3, record).encode())
    assert parsed == (key, value, record.headers)


def test_values_that_are_json_themselves_are_written_as_text() -> None:
    assert from_json(b'{"value": {"a": 1}}').value == b'{"a": 1}'
    assert from_json(b'{"key": 7, "value": null}') == (b"7", None, ())


@pytest.mark.parametrize(
    "line", [b"", b"x", b"[]", b'{"headers": [{}]}', b'{"value": "?", "base64": ["value"]}']
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(line)


def test_a_plain_line_is_split_at_the_first_separator() -> None:
    assert from_line(b"a:b:c", b":", tombstones=False) == (b"a", b"b:c", ())
    assert from_line(b"a:b:c", None, tombstones=False) == (None, b"a:b:c", ())
    assert from_line(b"a:", b":", tombstones=True) == (b"a", None, ())
    assert from_line(b"a:", b":", tombstones=False) == (b"a", b"", ())
    with pytest.raises(ValueError, match="no ':' between"):
        from_line(b"abc", b":", tombstones=False)


def test_a_format_is_filled_for_each_record() -> None:
    render = compile_format(r"%p/%o %T\t%k=%v;%h %%")
    record = Record(7, 0, b"k", b"v", (("a", b"1"), ("b", None)))
    assert render("t", 2, record) == "2/7 1970-01-01T00:00:00.000Z\tk=v;a=1,b= %"
    with pytest.raises(ValueError, match="%z means nothing"):
        compile_format("%z")


def test_bytes_that_are_not_text_are_shown_with_escapes() -> None:
    assert readable(b"a\xff") == r"a\xff"
    assert readable(None) == ""
    assert json.loads(to_json("t", 0, Record(0, 0, None, b"\xff")))["base64"] == ["value"]

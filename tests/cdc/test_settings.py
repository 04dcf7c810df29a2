"""The file that describes a source."""

from typing import Any

import pytest

from chordmq.cdc.errors import InvalidSource
from chordmq.cdc.settings import read_plan

SOURCE: dict[str, Any] = {"name": "shop", "kind": "postgresql", "address": "postgresql://db/shop"}


def test_names_follow_from_the_name_of_the_source() -> None:
    source = read_plan({"sources": [SOURCE]}).sources[0]
    assert source.prefix == "shop"
    assert source.dead_letter == "shop.dlq"
    assert source.slot_name == source.publication_name == "chordmq_shop"
    assert source.positions == "shop.cdc-positions"


def test_numbers_may_be_texts_because_they_come_from_the_environment() -> None:
    assert read_plan({"sources": [SOURCE | {"port": "9465"}]}).sources[0].port == 9465


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kind": "oracle"}, "oracle"),
        ({"colour": {}}, "unknown field `colour`"),
        ({"name": "My Shop"}, "matching regex"),
        ({"tables": {"include": ["("]}}, "is no regular expression"),
        ({"snapshot": "sometimes"}, "sometimes"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSource, match=reason):
        read_plan({"sources": [SOURCE | more]})


def test_two_sources_need_two_names() -> None:
    with pytest.raises(InvalidSource, match="same name"):
        read_plan({"sources": [SOURCE, SOURCE]})


def test_one_of_several_sources_must_be_named() -> None:
    plan = read_plan({"sources": [SOURCE, SOURCE | {"name": "other"}]})
    assert plan.source("other").name == "other"
    with pytest.raises(InvalidSource, match="shop, other"):
        plan.source("")

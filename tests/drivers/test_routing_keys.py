"""Names as RabbitMQ's routing keys, and filters as its bindings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.drivers.errors import Refused
from chordmq.drivers.routing_keys import Link, binding_of, key_of, links_to, name_of

LEVEL = st.text(
    st.characters(blacklist_characters="/+#\0", blacklist_categories=["Cs"]), max_size=8
)


@given(st.lists(LEVEL, min_size=1, max_size=5).map("/".join).filter(bool))
def test_a_name_comes_back_from_its_key(name: str) -> None:
    assert name_of(key_of(name)) == name


def test_what_has_a_meaning_in_keys_is_written_otherwise() -> None:
    assert key_of("a/b.c*d%/e") == "a.b%2Ec%2Ad%25.e"


def test_wildcards_are_those_of_the_exchange() -> None:
    assert binding_of("a/+/c.d/#") == "a.*.c%2Ed.#"


def test_a_name_over_the_limit_is_refused() -> None:
    with pytest.raises(Refused, match="255"):
        key_of("a/" + "b" * 300)


def test_exchanges_follow_the_first_two_levels() -> None:
    """E7: the hierarchy is made of bindings between exchanges."""
    assert links_to("iot/devices/+/t") == [
        Link("chordmq.iot", "chordmq", "iot.#"),
        Link("chordmq.iot.devices", "chordmq.iot", "iot.devices.#"),
    ]
    assert links_to("iot/+/d7") == [Link("chordmq.iot", "chordmq", "iot.#")]
    assert links_to("#") == []

"""Exchanges: who gets a message, now and as it was when it was published."""

import pytest

from chordmq.broker.queues.exchanges import (
    FOREVER,
    Binding,
    Exchange,
    Exchanges,
    headers_match,
    topic_matches,
)


def bound(*bindings: tuple[str, str, str], kind: str = "topic") -> Exchanges:
    """Return exchanges `e` and `f` of a kind, with bindings (source, key, destination)."""
    exchanges = Exchanges()
    for name in ("e", "f"):
        exchanges.add(Exchange(name=name, type=kind))
    for source, key, destination in bindings:
        to_queue = destination not in ("e", "f")
        exchanges.bind(Binding(source=source, destination=destination, to_queue=to_queue, key=key))
    return exchanges


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c", "a.b.c.d"]),
        ("#", ["", "a", "a.b"], []),
        ("a.#", ["a", "a.b", "a.b.c"], ["b", "b.a", ""]),
        ("#.a", ["a", "b.a", "a.a"], ["a.b"]),
        ("#.a.#", ["a", "x.a.y", "a.b", "b.a"], ["b", "x.y"]),
        ("*", ["a"], ["", "a.b"]),
        ("#.*", ["a", "a.b"], [""]),
        ("*.#.b.#.*", ["a.b.c", "a.x.b.y.c"], ["a.b", "b.c"]),
        ("plain", ["plain"], ["plain.", "pl"]),
        ("#.#.#", ["", "a.b.c"], []),
    ],
)
def test_patterns_fit_as_words(pattern: str, fitting: list[str], others: list[str]) -> None:
    """E4: `*` is one word, `#` any number of them, also none."""
    assert [key for key in fitting + others if topic_matches(pattern, key)] == fitting


def test_many_hashes_do_not_make_a_match_take_long() -> None:
    assert not topic_matches("#.a." * 60 + "b", "a." * 200 + "c")


def test_each_queue_gets_a_message_once_over_any_number_of_ways() -> None:
    exchanges = bound(("e", "#", "q"), ("e", "a", "q"), ("e", "#", "f"), ("f", "#", "q"))
    assert exchanges.route("e", "a", {}) == ("q",)


def test_exchanges_that_are_bound_in_a_circle_come_to_an_end() -> None:
    exchanges = bound(("e", "#", "f"), ("f", "#", "e"), ("f", "#", "q"))
    assert exchanges.route("e", "a", {}) == ("q",)


def test_the_alternate_exchange_gets_what_fits_nothing() -> None:
    exchanges = bound(("f", "#", "left over"))
    exchanges.add(Exchange(name="e", type="direct", arguments={"alternate-exchange": "f"}))
    exchanges.bind(Binding(source="e", destination="q", to_queue=True, key="k"))
    assert exchanges.route("e", "k", {}) == ("q",)
    assert exchanges.route("e", "other", {}) == ("left over",)


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 2}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1}, {}, False),
        ({"x-match": "all", "a": None}, {"a": "anything"}, True),
        ({"x-match": "all", "x-own": 1}, {}, True),
        ({"x-match": "all-with-x", "x-own": 1}, {}, False),
        ({"x-match": "any-with-x", "x-own": 1}, {"x-own": 1}, True),
    ],
)
def test_headers_are_compared(
    arguments: dict[str, object], headers: dict[str, object], fits: bool
) -> None:
    assert headers_match(arguments, headers) is fits


def test_a_message_goes_where_bindings_led_when_it_was_published() -> None:
    """E4: a restart routes old messages again, by the bindings of their time."""
    exchanges = bound()
    first = Binding(source="e", destination="first", to_queue=True, key="#", since=10)
    exchanges.bind(first)
    exchanges.unbind(first, 20)
    exchanges.bind(
        Binding(source="e", destination="first", to_queue=True, key="#", since=10, until=20)
    )
    exchanges.bind(Binding(source="e", destination="second", to_queue=True, key="#", since=15))
    at = {stamp: exchanges.route_at(stamp, "e", "k", {}) for stamp in (5, 10, 14, 15, 19, 20, 99)}
    assert at[5] == ()
    assert at[10] == at[14] == ("first",)
    assert set(at[15]) == set(at[19]) == {"first", "second"}
    assert at[20] == at[99] == ("second",)


def test_a_change_counts_for_what_is_routed_next() -> None:
    exchanges = bound(("e", "k", "q"), kind="direct")
    assert exchanges.route("e", "k", {}) == ("q",)
    gone = exchanges.bindings_to("q")[0]
    exchanges.unbind(gone, 1)
    assert exchanges.route("e", "k", {}) == ()


def test_an_exchange_goes_with_its_bindings_on_both_sides() -> None:
    exchanges = bound(("e", "#", "f"), ("f", "#", "q"), ("e", "#", "p"))
    gone = exchanges.remove("f", 5)
    assert {one.destination for one in gone} == {"f", "q"}
    assert exchanges.route("e", "k", {}) == ("p",)


def test_the_queues_behind_a_binding_are_known() -> None:
    exchanges = bound(("e", "#", "f"), ("f", "#", "q"), ("f", "#", "e"), ("e", "x", "p"))
    way = next(one for one in exchanges.bindings_from("e") if one.destination == "f")
    assert exchanges.reaches(way) == {"q", "p"}
    assert way.until == FOREVER

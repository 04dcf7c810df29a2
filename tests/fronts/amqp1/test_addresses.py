"""Addresses of sources and targets: what they name, and what names nothing."""

import pytest

from chordmq.errors import InvalidRequest
from chordmq.fronts.amqp1.addresses import Address, Place, read_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/queues/orders", Address(Place.QUEUE, "", "orders")),
        ("/queues/a%2Fb%25", Address(Place.QUEUE, "", "a/b%")),
        ("/queues/gr%C3%BC%C3%9Fe", Address(Place.QUEUE, "", "grüße")),
        ("/exchanges/e/eu.de", Address(Place.EXCHANGE, "e", "eu.de")),
        ("/exchanges/e/a%2Fb", Address(Place.EXCHANGE, "e", "a/b")),
        ("/exchanges/e", Address(Place.EXCHANGE, "e", "")),
        ("/exchanges/e/", Address(Place.EXCHANGE, "e", "")),
        ("orders", Address(Place.NAME, "", "orders")),
        ("a.b", Address(Place.NAME, "", "a.b")),
        ("plant/oven/v1.2", Address(Place.LEVELS, "amq.topic", "plant.oven.v1/2")),
    ],
)
def test_an_address_names_a_place(text: str, address: Address) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "", None, 5, "/", "/queues", "/queues/", "/queues/a/b", "/exchanges/", "/exchanges//k",
        "/exchanges/e/a/b", "/topics/t", "/queues/%ff", "x" * 256, "/queues/" + "x" * 256,
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest):
        read_address(text)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("a/+/c", "a.*.c"), ("a/#", "a.#"), ("a/b.c/+", "a.b/c.*")],
)
def test_filters_over_levels_are_patterns_of_routing_keys(text: str, pattern: str) -> None:
    assert read_address(text).pattern == pattern

"""Performatives and the composite values in them: written and read, and what they refuse."""

from typing import Any

import pytest

from chordmq.codecs.amqp1.composites import (
    BY_CODE,
    BY_NAME,
    PERFORMATIVES,
    RECEIVER,
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    Source,
    Target,
    Transfer,
    from_items,
    layout,
    to_composite,
)
from chordmq.codecs.amqp1.values import Described, Symbol, read_value
from chordmq.errors import DecodeError

ATTACH = Attach(
    link_name="l",
    handle=3,
    role=RECEIVER,
    snd_settle_mode=1,
    source=Source(
        address="q",
        durable=2,
        expiry_policy=Symbol("never"),
        filter={Symbol("f"): Described(Symbol("f"), "first")},
        default_outcome=Modified(delivery_failed=True),
        outcomes=(Symbol("a"), Symbol("b")),
    ),
    target=Target(address="t", capabilities=(Symbol("queue"),)),
    properties={Symbol("p"): 1},
)


@pytest.mark.parametrize(
    "composite",
    [
        Open(container_id="c", hostname="h", max_frame_size=512, idle_time_out=1000),
        Begin(next_outgoing_id=0, incoming_window=5, outgoing_window=2**32 - 1),
        ATTACH,
        Attach(link_name="l", handle=0, role=False, target=Coordinator()),
        Flow(incoming_window=1, next_outgoing_id=2, outgoing_window=3, drain=True),
        Transfer(handle=1, delivery_id=2, delivery_tag=b"t", settled=False, state=Accepted()),
        Disposition(role=True, first=1, state=Rejected(error=Error(condition=Symbol("a:b")))),
        Close(),
    ],
)
def test_a_composite_comes_back_as_it_was(composite: Any) -> None:
    assert to_composite(read_value(composite.to_bytes(), 0)[0]) == composite


def test_fields_at_the_end_that_say_nothing_are_not_sent() -> None:
    assert Close().to_bytes() == b"\x00\x53\x18\x45"
    assert Accepted().to_bytes() == b"\x00\x53\x24\x45"


def test_one_symbol_stands_for_an_array_of_one() -> None:
    items = [None, None, None, None, None, None, None, None, None, None, Symbol("queue")]
    assert from_items(Source, items).capabilities == ("queue",)


@pytest.mark.parametrize(
    ("kind", "items", "why"),
    [
        (Open, [], "container_id"),
        (Open, ["c", None, "big"], "not what a field takes"),
        (Open, ["c", None, 2**32], "not what a field takes"),
        (Open, ["c", None, -1], "not what a field takes"),
        (Begin, [None, 0, True, 0], "not what a field takes"),
        (Attach, ["l", 0, True, 0, 0, "q"], "not what a field takes"),
        (Attach, ["l", 0, True, 0, 0, Described(0x29, [])], "not what a field takes"),
        (Transfer, [0, 1, b"", 0, True, False, None, Described(0x10, ["c"])], "not what a field"),
        (Close, [None, None], "does not have such fields"),
        (Close, "x", "does not have such fields"),
        (Source, [None] * 10 + ["queue"], "no symbols"),
    ],
)
def test_what_a_field_does_not_take_is_refused(kind: type, items: Any, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_items(kind, items)


def test_every_kind_has_its_own_code_and_name() -> None:
    assert len(BY_CODE) == len(BY_NAME)
    for kind in PERFORMATIVES:
        assert BY_CODE[kind.code] is BY_NAME[kind.name] is kind
        assert layout(kind)


def test_what_is_described_otherwise_is_no_composite() -> None:
    assert to_composite(Described(0x99, [])) is None
    assert to_composite("text") is None

"""What the log of queues holds comes back as it was, and garbage is told from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.cursors.shared_cursor import Change, State
from chordmq.broker.queues.definitions import (
    Held,
    Made,
    Routed,
    Stored,
    binding_entry,
    exchange_entry,
    queue_entry,
    read,
    topic_entry,
    write,
)
from chordmq.broker.queues.exchanges import Binding, Exchange
from chordmq.broker.queues.image import Image
from chordmq.broker.queues.queue import QueueFacts
from chordmq.errors import DecodeError

ID = bytes(range(16))
BINDING = Binding(source="e", destination="q", to_queue=True, key="k", arguments={"a": 1}, since=7)
ENTRIES: list[Stored] = [
    exchange_entry("/", "e", Exchange(name="e", type="topic", durable=True, arguments={"x": "y"})),
    queue_entry(
        "v", "q", QueueFacts(vhost="v", name="q", durable=True, arguments={"x-expires": 5})
    ),
    binding_entry("/", BINDING, BINDING),
    topic_entry("t", Made("t")),
    Routed(ID, 3, 99),
    Held("/", "q", ID, 3, 5, (Change(5, 8, State.AVAILABLE, 2), Change(9, 9, State.DONE, 0))),
    exchange_entry("/", "e", None),
    queue_entry("/", "q", None),
    binding_entry("/", BINDING, None),
    topic_entry("t", None),
    Routed(ID, 3, None),
    Held("/", "q", ID, 3, None),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_entries_come_back(entry: Stored) -> None:
    assert read(*write(entry)) == entry


def test_a_kind_that_is_not_known_is_let_be() -> None:
    assert read(b'["future",1]', b"{}") is None


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_raises_decode_error_and_nothing_else(key: bytes, value: bytes) -> None:
    try:
        read(key, value)
    except DecodeError:
        pass


def test_the_newest_entry_of_each_key_counts() -> None:
    image = Image()
    for entry in ENTRIES[:6]:
        image.replay(entry)
    assert image.vhosts == {"/", "v"}
    assert image.made == {"t"}
    assert image.routed == {(ID, 3): 99}
    assert image.holds(ID)
    for entry in ENTRIES[6:]:
        image.replay(entry)
    assert (image.vhosts, image.made, image.routed, image.holds(ID)) == ({"v"}, set(), {}, False)

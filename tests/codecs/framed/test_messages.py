"""The first frame says who comes and what for; everything else in it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.framed.messages import Hello, Role, join_frames, read_hello
from chordmq.errors import DecodeError


def hello(text: str) -> Hello:
    return read_hello(text.encode())


def test_the_plain_roles_are_understood() -> None:
    """B1: the first frame names the role."""
    assert hello("PRODUCER") == Hello(Role.PRODUCER)
    assert hello("consumer\n") == Hello(Role.CONSUMER)


def test_options_follow_the_role() -> None:
    """B1: and may say more."""
    found = hello("CONSUMER topic=orders mode=queue name=billing ack=auto start=earliest token=t")
    assert found == Hello(
        Role.CONSUMER, "orders", "t", "auto", mode="queue", name="billing", start="earliest"
    )


@pytest.mark.parametrize(
    "text",
    ["", "HELLO", "GET / HTTP/1.1", "PRODUCER topic", "PRODUCER color=red", "CONSUMER mode=both",
     "PRODUCER ack=auto", "CONSUMER topic=a topic=b", "PRODUCER " + "x" * 5000],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    """B1: with a clear error."""
    with pytest.raises(DecodeError):
        hello(text)


@given(st.binary(max_size=200))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    try:
        read_hello(data)
    except DecodeError:
        pass


def test_many_messages_are_one_piece() -> None:
    """B2: each with its size in four bytes, big-endian."""
    assert join_frames([b"a", b"", b"xyz"]) == b"\0\0\0\1a\0\0\0\0\0\0\0\3xyz"

"""What the node and its Cap'n Proto process say to each other."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.capnp.link import (
    Answer,
    Ask,
    Finish,
    GiveUp,
    Message,
    Unframer,
    framed,
    packed,
)

messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ask, st.integers(-1, 2**60), st.text(), st.text(), st.binary().map(packed)),
    st.builds(GiveUp, st.integers(0, 2**60)),
    st.builds(Answer, st.integers(0, 2**60), st.binary().map(packed), st.text(), st.text()),
    st.builds(Finish, st.text()),
)


@given(said=st.lists(messages, max_size=6), size=st.integers(1, 50))
def test_what_is_said_is_heard_however_it_is_cut(said: list[Message], size: int) -> None:
    data = b"".join(map(framed, said))
    unframer = Unframer()
    heard: list[Message] = []
    for begin in range(0, len(data), size):
        heard += unframer.receive(data[begin : begin + size])
    assert [framed(one) for one in heard] == [framed(one) for one in said]

"""Frames that the node writes, read by another implementation."""

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from chordmq.codecs.websocket.frames import BINARY, TEXT, frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_frame_of_any_size_is_read_back(opcode: int, size: int) -> None:
    """C17: the three forms of a length in RFC 6455, section 5.2, at their borders."""
    payload = b"x" * size
    client = ClientProtocol(parse_uri("ws://node/"), max_size=None, state=OPEN)
    client.receive_data(b"".join(frame(opcode, (payload[:1], payload[1:]))))
    (event,) = client.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, bytes(event.data), event.fin) == (opcode, payload, True)

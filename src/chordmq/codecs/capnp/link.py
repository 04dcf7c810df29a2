"""What the node and its Cap'n Proto process say to each other: MessagePack in sized frames."""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

SIZE = struct.Struct(">I")
UNANSWERED = -1


class Ask(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """To the node: do something for a client, and answer unless the number is UNANSWERED."""

    number: int
    client: str
    method: str
    arguments: msgspec.Raw


class GiveUp(msgspec.Struct, array_like=True, tag="give up", frozen=True):
    """To the node: nobody waits for this answer any more."""

    number: int


class Answer(msgspec.Struct, array_like=True, tag="answer", frozen=True):
    """To the process: what came of a question; `error` is the name of what went wrong."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str = ""
    reason: str = ""


class Finish(msgspec.Struct, array_like=True, tag="finish", frozen=True):
    """To the process: hang up on a client when all its calls are answered."""

    client: str


Message = Ask | GiveUp | Answer | Finish

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def packed(value: Any) -> msgspec.Raw:
    """Return arguments or a result as they travel."""
    return msgspec.Raw(_ENCODER.encode(value))


def framed(message: Message) -> bytes:
    """Return a message as a frame."""
    data = _ENCODER.encode(message)
    return SIZE.pack(len(data)) + data


class Unframer:
    """Cuts the messages out of a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that the bytes complete."""
        data = self._rest + data if self._rest else data
        position = 0
        while len(data) - position >= SIZE.size:
            (size,) = SIZE.unpack_from(data, position)
            end = position + SIZE.size + size
            if len(data) < end:
                break
            yield _DECODER.decode(memoryview(data)[position + SIZE.size : end])
            position = end
        self._rest = data[position:]

"""What the members of the ring say to each other: requests, each answered at once, and a notice."""

import msgspec

from chordmq.errors import DecodeError


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Which neighbours have you?"""

    number: int


class Neighbours(msgspec.Struct, frozen=True, array_like=True, tag="neighbours"):
    """The member's place in the ring."""

    number: int
    predecessor: int | None
    successors: tuple[int, ...]


class Route(msgspec.Struct, frozen=True, array_like=True, tag="route"):
    """Who owns this key?"""

    number: int
    key: int


class Routed(msgspec.Struct, frozen=True, array_like=True, tag="routed"):
    """The key's owner, or members that are nearer to it, the nearest first."""

    number: int
    owner: int | None
    nearer: tuple[int, ...] = ()


class Spread(msgspec.Struct, frozen=True, array_like=True, tag="spread"):
    """Take this, and pass it on to every member between you and the limit."""

    number: int
    origin: int
    sequence: int
    limit: int
    payload: bytes


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The member has the payload, and sees to the arc."""

    number: int


class Notify(msgspec.Struct, frozen=True, array_like=True, tag="notify"):
    """I may be your predecessor."""

    member: int


Request = Ask | Route | Spread
Answer = Neighbours | Routed | Taken
Message = Request | Answer | Notify

encode = msgspec.msgpack.encode

_decoder = msgspec.msgpack.Decoder(Message)


def decode(body: memoryview) -> Message:
    """Read a message; raise DecodeError if it is none."""
    try:
        message: Message = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a message of the ring: {error}") from None
    return message

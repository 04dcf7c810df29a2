"""Streams of bytes between two nodes, over their link: a client's connection, served elsewhere.

Each end is a transport as asyncio has them. A sender may be a window ahead of what the other end
has taken, so that a slow client holds up its own stream and no other. When the link ends, all its
streams do.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple, Protocol, cast

import msgspec

from chordmq.cluster.link import Caller, LinkDown, NoticeHandler, Watcher
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import DecodeError
from chordmq.logs import get_logger

log = get_logger(__name__)

WINDOW = 256 * 1024
"""Bytes under way, above which the sender is asked to pause."""
TOLD_EVERY = WINDOW // 8
"""Bytes taken, after which the sender is told so."""

_HEAD = struct.Struct(">B?Q")
_COUNT = struct.Struct(">I")


class Part(IntEnum):
    """What a notice is in a stream."""

    OPEN = 0
    DATA = 1
    TAKEN = 2
    DRAIN = 3
    END = 4


class Visitor(msgspec.Struct, frozen=True, array_like=True):
    """The client at the far end of a tunnel, as the node knows it that it has come to."""

    front: str
    """Whom it wants to talk to."""
    host: str
    user: str
    """Whom its certificate names."""


class Guest(Protocol):
    """What talks to a client through a tunnel."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        ...

    def pause_writing(self) -> None:
        """Send no more for now."""
        ...

    def resume_writing(self) -> None:
        """Send again."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        ...

    def drain(self) -> None:
        """Finish what has arrived, then close: the node that the client is at is stopping."""
        ...


class Wires(Protocol):
    """The links to the other nodes."""

    on_lost: list[Watcher]

    def on(self, kind: int, handler: NoticeHandler) -> None:
        """Have notices of this kind taken by a handler, in the order they were sent."""
        ...

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        ...


class Place(NamedTuple):
    """Which tunnel it is: with whom, who dug it, and its number there."""

    broker: int
    is_ours: bool
    number: int


class Tunnel(asyncio.Transport):
    """One end of a stream."""

    def __init__(self, tunnels: "Tunnels", place: Place, visitor: Visitor) -> None:
        super().__init__({"peername": (visitor.host, 0), "visitor": visitor})
        self._tunnels = tunnels
        self._place = place
        self._guest: Guest
        self._under_way = 0
        self._taken = 0
        self._unread: list[bytes] = []
        self._is_reading = True
        self._is_held_up = False
        self._is_closed = False

    def begin(self, guest: Guest) -> None:
        """Let somebody talk at this end."""
        self._guest = guest
        guest.connection_made(self)

    # What the guest asks.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to the other end."""
        if self._is_closed or not data:
            return
        self._under_way += len(data)
        self._tunnels.send(self._place, Part.DATA, data)
        if self._under_way > WINDOW and not self._is_held_up:
            self._is_held_up = True
            self._guest.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Keep what comes, and do not count it as taken."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Hand on what has come, and what will come."""
        if not self._is_reading:
            self._is_reading = True
            asyncio.get_running_loop().call_soon(self._hand_on)

    def drain(self) -> None:
        """Ask the other end to finish, and to close then."""
        if not self._is_closed:
            self._tunnels.send(self._place, Part.DRAIN)

    def close(self) -> None:
        """End the stream; what was written arrives before."""
        if not self._is_closed:
            self._tunnels.send(self._place, Part.END)
            self.end(None)

    def abort(self) -> None:
        """End the stream."""
        self.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another guest go on."""
        self._guest = cast(Guest, protocol)

    def is_closing(self) -> bool:
        """Return whether the stream has ended."""
        return self._is_closed

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the other end has not taken; of the last few it says nothing."""
        return self._under_way if self._under_way > TOLD_EVERY else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Let it be: the window is the same for all."""

    # What the other end tells.

    def received(self, data: bytes) -> None:
        """Take bytes of the other end."""
        self._unread.append(data)
        self._hand_on()

    def told(self, count: int) -> None:
        """Take note of what the other end has taken."""
        self._under_way -= count
        if self._is_held_up and self._under_way <= WINDOW // 2:
            self._is_held_up = False
            self._guest.resume_writing()

    def drained(self) -> None:
        """Take note that the other end wants to close."""
        self._guest.drain()

    def end(self, fault: Exception | None) -> None:
        """Take note that the stream has ended, and tell the guest in the next turn."""
        if self._is_closed:
            return
        if fault is None:
            self._is_reading = True
            self._hand_on()
        self._is_closed = True
        self._tunnels.forget(self._place)
        asyncio.get_running_loop().call_soon(self._guest.connection_lost, fault)

    def _hand_on(self) -> None:
        while self._unread and self._is_reading and not self._is_closed:
            data = self._unread.pop(0)
            self._taken += len(data)
            self._guest.data_received(data)
        if self._taken >= TOLD_EVERY and not self._is_closed:
            self._tunnels.send(self._place, Part.TAKEN, _COUNT.pack(self._taken))
            self._taken = 0


class Tunnels:
    """All streams of a node, those that it has begun and those that others have."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._tunnels: dict[Place, Tunnel] = {}
        self._hosts: dict[str, Callable[[], Guest]] = {}
        self._number = 0
        wires.on(Kind.TUNNEL, self._take)
        wires.on_lost.append(self._lost)

    def __len__(self) -> int:
        return len(self._tunnels)

    def serve(self, front: str, host: Callable[[], Guest]) -> None:
        """Have visitors of a front talked to by what `host` returns."""
        self._hosts[front] = host

    def dig(self, broker: int, visitor: Visitor, guest: Guest) -> Tunnel:
        """Return a new stream to a node; raise LinkDown if there is no way to it now."""
        self._number += 1
        place = Place(broker, True, self._number)
        if not self.send(place, Part.OPEN, msgspec.msgpack.encode(visitor)):
            raise LinkDown(f"no link to node {broker}")
        tunnel = self._tunnels[place] = Tunnel(self, place, visitor)
        tunnel.begin(guest)
        return tunnel

    # What tunnels ask.

    def send(self, place: Place, part: Part, data: bytes | bytearray | memoryview = b"") -> bool:
        """Send something to the other end; False if there is no link."""
        head = _HEAD.pack(part, place.is_ours, place.number)
        return self._wires.send(place.broker, Kind.TUNNEL, [head, data])

    def forget(self, place: Place) -> None:
        """Take note that a stream has ended."""
        self._tunnels.pop(place, None)

    # What the links tell.

    def _take(self, caller: Caller, body: memoryview) -> None:
        try:
            part, is_theirs, number = _HEAD.unpack_from(body)
        except struct.error as error:
            raise DecodeError(f"no part of a stream: {error}") from None
        place, data = Place(caller.broker, not is_theirs, number), bytes(body[_HEAD.size :])
        if part == Part.OPEN:
            self._open(place, data)
            return
        tunnel = self._tunnels.get(place)
        if tunnel is None:
            return  # it has ended here, and the other end will hear of it
        if part == Part.DATA:
            tunnel.received(data)
        elif part == Part.TAKEN:
            tunnel.told(_COUNT.unpack(data)[0])
        elif part == Part.DRAIN:
            tunnel.drained()
        else:
            tunnel.end(None)

    def _open(self, place: Place, data: bytes) -> None:
        try:
            visitor = msgspec.msgpack.decode(data, type=Visitor)
        except msgspec.DecodeError as error:
            raise DecodeError(f"no visitor: {error}") from None
        host = self._hosts.get(visitor.front)
        if host is None:
            log.info("visitor refused", front=visitor.front, broker=place.broker)
            self.send(place, Part.END)
            return
        tunnel = self._tunnels[place] = Tunnel(self, place, visitor)
        tunnel.begin(host())

    def _lost(self, broker: int) -> None:
        for place, tunnel in list(self._tunnels.items()):
            if place.broker == broker:
                tunnel.end(ConnectionResetError(f"the link to node {broker} has ended"))

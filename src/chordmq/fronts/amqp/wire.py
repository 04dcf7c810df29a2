"""The bytes of one AMQP 0-9-1 connection, which begins with the version that the client wants."""

from pamqp import base

from chordmq.codecs.amqp.frames import (
    FRAME_MIN,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    Event,
    FrameFault,
    FrameReader,
    method_frame,
)
from chordmq.fronts import wire
from chordmq.fronts.amqp.front import AmqpFront
from chordmq.fronts.guest import Guest

NEWER = (b"AMQP\x00\x01", b"AMQP\x03\x01")
"""How clients of AMQP 1.0 begin: at once, or with their login."""


class Wire(Guest[Event]):
    """One client's transport; clients of AMQP 1.0 are handed over."""

    life_sign = HEARTBEAT_FRAME

    def __init__(self, front: AmqpFront) -> None:
        self.reader = FrameReader(front.settings.message_size_max)
        super().__init__(front.listener, self.reader, front.broker, front.authenticator)
        self.frame_max = FRAME_MIN
        self._newer = front.newer
        self._header = b""

    async def greeted(self) -> bool:
        """Return whether the client speaks this version of AMQP; if not, say which we speak."""
        while len(self._header) < len(PROTOCOL_HEADER):
            if self._header != PROTOCOL_HEADER[: len(self._header)] and not self._is_newer:
                break
            self._arrived.clear()
            await self._arrived.wait()
        if self._header == PROTOCOL_HEADER:
            return True
        if not self._is_closed:
            self._transport.write(PROTOCOL_HEADER)
        return False

    @property
    def _is_newer(self) -> bool:
        """Return whether the client speaks AMQP 1.0, as far as can be seen."""
        begun = self._header
        return self._newer is not None and any(
            one.startswith(begun[: len(one)]) and begun.startswith(one[: len(begun)])
            for one in NEWER
        )

    def data_received(self, data: bytes) -> None:
        """Take the events that the new bytes complete, behind the protocol header."""
        missing = len(PROTOCOL_HEADER) - len(self._header)
        if missing:
            self._header += data[:missing]
            data = data[missing:]
            if len(self._header) == len(PROTOCOL_HEADER) and self._is_newer:
                self._hand_over(self._header + data)
                return
        super().data_received(data)

    def _hand_over(self, data: bytes) -> None:
        """Let AMQP 1.0 go on with the connection."""
        assert self._newer is not None
        newer = self._newer()
        assert isinstance(newer, wire.Wire)
        self._is_closed = True
        self._arrived.set()
        newer.succeed(self, data)

    def _forced(self, reason: str) -> FrameFault:
        return FrameFault(320, reason)

    def tell(self, method: base.Frame) -> None:
        """Send a method of the connection itself."""
        self.send(method_frame(0, method))

    def beat_twice(self, interval_s: int) -> None:
        """Keep the agreed interval, twice as often so that a sign that is late does no harm."""
        self.beat_later(interval_s / 2, 2 * interval_s)

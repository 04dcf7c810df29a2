"""MQTT inside WebSocket frames, at `/mqtt` on HTTP's port: for browsers (MQTT 5, section 6)."""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from websockets.exceptions import NegotiationError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from chordmq.broker.security.principal import Principal
from chordmq.codecs.websocket.frames import BINARY, frame
from chordmq.fronts.listener import Listener
from chordmq.fronts.mqtt.connection import WRITE_BUFFER_HIGH
from chordmq.fronts.mqtt.front import MqttFront
from chordmq.fronts.mqtt.gate import mqtt_connection

PATH = "/mqtt"
SUBPROTOCOL = Subprotocol("mqtt")

_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # each client would be worth a line otherwise

Refusal = tuple[HTTPStatus, str]
Check = Callable[[Request], Refusal | None]
"""Returns why a client may not come in from where it is; None if it may."""


def _select(protocol: ServerProtocol, offered: "list[Subprotocol]") -> Subprotocol:
    if SUBPROTOCOL not in offered:  # MQTT-6.0.0-3
        raise NegotiationError("the sub-protocol here is mqtt")
    return SUBPROTOCOL


class WebSocketTransport:
    """A transport whose bytes go into binary frames."""

    def __init__(self, transport: asyncio.Transport, protocol: ServerProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.abort = transport.abort
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        """Send bytes in one frame."""
        if data and self._protocol.state is State.OPEN:
            self._transport.write(b"".join(frame(BINARY, (data,))))

    def answer(self) -> None:
        """Send what the parser answers by itself: pongs, and the end."""
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()

    def close(self) -> None:
        """Say goodbye, and close when everything is sent."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self.answer()
        self._transport.close()


class MqttWebSocket(asyncio.Protocol):
    """One client; takes over the transport of an HTTP connection that asks for it."""

    def __init__(
        self, front: MqttFront, listener: Listener, client: tuple[str, Principal], check: Check
    ) -> None:
        self._listener = listener
        self._host, self._certified = client
        self._check = check
        self._protocol = ServerProtocol(
            subprotocols=[SUBPROTOCOL],
            select_subprotocol=_select,  # type: ignore[arg-type]
            max_size=front.settings.frame_size_max,
            logger=_QUIET,
        )
        self._connection = mqtt_connection(front, listener, "mqtt over websocket")
        self._transport: asyncio.Transport
        self._carrier: WebSocketTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over from HTTP."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self._carrier = WebSocketTransport(self._transport, self._protocol)
        self._connection.begin(self._carrier, self._host, self._certified)

    def data_received(self, data: bytes) -> None:
        """Take the frames that the new bytes complete, and the packets inside."""
        self._protocol.receive_data(data)
        taken = []
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                if event.opcode is Opcode.TEXT:  # MQTT-6.0.0-1
                    self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "MQTT is binary")
                elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                    taken.append(bytes(event.data))
        self._carrier.answer()
        if taken:
            self._connection.data_received(b"".join(taken))

    def _answer(self, request: Request) -> None:
        refusal = self._check(request)
        response = self._protocol.reject(refusal[0], f"{refusal[1]}\n") if refusal else None
        self._protocol.send_response(response or self._protocol.accept(request))

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def pause_writing(self) -> None:
        """Send no more while the client does not take what was sent."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Go on when the client has taken what was sent."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the session to the client's next connection."""
        self._connection.connection_lost(exc)
        self._listener.forget(self, self._host)

    # What the listener asks.

    @property
    def last_active_s(self) -> float:
        """Return when the client was heard last."""
        return self._connection.last_active_s

    @last_active_s.setter
    def last_active_s(self, value: float) -> None:
        self._connection.last_active_s = value

    @property
    def is_busy(self) -> bool:
        """Return whether the client is let in."""
        return self._connection.is_busy

    @property
    def is_partial(self) -> bool:
        """Return whether a packet has begun and not ended."""
        return self._connection.is_partial

    def drain(self) -> None:
        """Close: what the client has sent is answered as far as it is stored."""
        self._connection.drain()

    def close(self, reason: str) -> None:
        """End the connection."""
        self._connection.close(reason)

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._connection.resume()

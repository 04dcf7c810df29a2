"""What stands behind the HTTP listener: the routes, and WebSockets, which begin as requests.

It is loaded with the first client that asks for it.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import Principal
from chordmq.clock import Clock
from chordmq.config import Config, demands_login, is_loopback
from chordmq.errors import ShuttingDown
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.connection import HttpConnection, HttpFront, Successor
from chordmq.fronts.admin.http3 import Http3
from chordmq.fronts.admin.login import Door, is_local_name
from chordmq.fronts.admin.measures import http_measures
from chordmq.fronts.admin.tracing import traced
from chordmq.fronts.listener import Listener
from chordmq.fronts.lobby import Lobby
from chordmq.fronts.mqtt.opening import MqttOpening
from chordmq.fronts.opening import Connect
from chordmq.fronts.websocket.front import WebSocketFront
from chordmq.fronts.websocket.measures import websocket_measures
from chordmq.iot.opening import DevicesOpening
from chordmq.iot.service import Devices
from chordmq.metrics import Metrics

if TYPE_CHECKING:
    from websockets.http11 import Request

    from chordmq.topology.pipes import Pipes
    from chordmq.tracing.tracing import Tracing


class Host(Protocol):
    """What the routes need of the node."""

    config: Config
    clock: Clock
    names: Names
    metrics: Metrics
    tracing: "Tracing | None"
    http: Listener
    mqtt: MqttOpening | None
    broker: Broker
    devices: DevicesOpening | None
    authenticator: Authenticator | None
    pipes: "Pipes | None"

    def waiting(self) -> list[str]:
        """Return why clients cannot be served; nothing when they can."""
        ...

    def info(self) -> dict[str, Any]:
        """Return who the node is, where it listens and what it holds."""
        ...

    def serving_broker(self) -> Broker:
        """Return the broker, or raise ShuttingDown with the reason why clients are not served."""
        ...


class Web:
    """Everything that speaks HTTP at first."""

    def __init__(self, node: Host) -> None:
        self._node = node
        config = node.config
        self._is_open = not demands_login(config, config.http)
        self.shared = Shared(
            broker=node.serving_broker,
            settings=config.http,
            devices=self._devices,
            pipes=node.pipes,
        )
        self.websocket = self._websocket()
        self._site = application(self._admin())
        front = HttpFront(node.http, self._site, self._upgrade)
        node.metrics.add(lambda: http_measures(front, self.shared))
        node.metrics.add(lambda: websocket_measures(self.websocket))
        self._front = front

    def connect(self) -> HttpConnection:
        """Return what drives the next client."""
        return self._front.connect()

    def http3(self) -> Http3:
        """Return the same routes over HTTP/3."""
        return Http3(self._site, self._node.config.http)

    def _devices(self) -> Devices:
        assert self._node.devices is not None  # for it is asked only where clients are served
        return self._node.devices.service

    def _admin(self) -> Admin:
        node = self._node
        door = Door(
            not self._is_open,
            lambda: node.authenticator,
            # The broker is there before anybody can be authenticated.
            lambda: node.broker.audit if node.authenticator else None,
            checks_names=is_loopback(node.config.http.host),
        )
        return Admin(
            metrics=node.metrics, waiting=node.waiting, info=node.info, door=door,
            shared=self.shared, outermost=traced(node.tracing, node.clock),
        )  # fmt: skip

    def _websocket(self) -> WebSocketFront:
        node = self._node
        checks_names = self._is_open and is_loopback(node.config.http.host)
        return WebSocketFront(
            broker=node.serving_broker,
            listener=node.http,
            settings=node.config.websocket,
            names=node.names,
            authenticator=lambda: node.authenticator,
            is_closed=not self._is_open,
            knows_name=lambda host: not checks_names or is_local_name(host),
        )

    def _upgrade(self, host: str, certified: Principal, path: str) -> Successor:
        # With the first client that asks, for a start should take no longer than it must.
        from chordmq.fronts.mqtt.websocket import PATH, MqttWebSocket
        from chordmq.fronts.websocket.connection import WebSocketConnection

        node = self._node
        mqtt = node.mqtt
        if path != PATH or mqtt is None:
            return WebSocketConnection(self.websocket, host, certified)
        if mqtt.front is not None:
            return MqttWebSocket(mqtt.front, node.http, (host, certified), self._turned)

        async def open_mqtt() -> Connect:
            front = await mqtt.opened()
            return lambda: MqttWebSocket(front, node.http, (host, certified), self._turned)

        return Lobby(node.http, open_mqtt).receive(host)

    def _turned(self, request: "Request") -> tuple[HTTPStatus, str] | None:
        """Return why a page may not connect over WebSockets."""
        from chordmq.fronts.websocket.handshake import Turned, check_origin

        try:
            self._node.serving_broker()
            check_origin(self.websocket, request)
        except ShuttingDown as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        except Turned as refusal:
            return refusal.status, str(refusal)
        return None

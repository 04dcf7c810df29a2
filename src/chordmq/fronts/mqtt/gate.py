"""Which node an MQTT client belongs to: that which looks after its session."""

from functools import partial

from chordmq.codecs.mqtt.packets import Connect
from chordmq.codecs.mqtt.reader import PacketReader
from chordmq.fronts.gate import Find, Gate
from chordmq.fronts.listener import Listener
from chordmq.fronts.mqtt.connection import MqttConnection
from chordmq.fronts.mqtt.front import MqttFront

FRONT = "mqtt"


class Door:
    """Reads a client's CONNECT; whatever else comes first is this node's to refuse."""

    def __init__(self, front: MqttFront, size_max: int) -> None:
        self._front = front
        self._reader = PacketReader(size_max)

    def ask(self, data: bytes) -> Find | None:
        """Return how to find the client's node, as soon as its bytes say who it is."""
        packets = self._reader.receive(data)
        if not packets and self._reader.fault is None:
            return None
        if not packets or not isinstance(packets[0], Connect):
            return _here
        client_id = packets[0].client_id or self._front.register.new_client_id()
        return partial(self._front.broker.sessions.home_of, client_id)


async def _here() -> None:
    return None


def mqtt_connection(
    front: MqttFront, listener: Listener, protocol: str = FRONT
) -> MqttConnection | Gate:
    """Return what drives the next client: in a cluster it may belong to another node."""
    tunnels = front.broker.tunnels
    if tunnels is None:
        return MqttConnection(front, listener, protocol)
    door = Door(front, listener.settings.frame_size_max)
    return Gate(
        listener, tunnels, FRONT, door.ask, lambda: MqttConnection(front, listener, protocol)
    )


def serve_visitors(front: MqttFront, listener: Listener) -> None:
    """Serve the clients that have come to other nodes."""
    if front.broker.tunnels is not None:
        front.broker.tunnels.serve(FRONT, lambda: MqttConnection(front, listener))

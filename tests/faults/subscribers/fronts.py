"""Every front that pushes: the proofs run with each of these."""

from tests.faults.subscribers.framed import Framed
from tests.faults.subscribers.provider import Provider
from tests.faults.subscribers.subscriber import Subscriber
from tests.faults.subscribers.websocket import WebSocket

FRONTS: dict[str, type[Subscriber]] = {
    "framed": Framed,
    "provider": Provider,
    "websocket": WebSocket,
}

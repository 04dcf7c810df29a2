"""Every front that pushes: the proofs run with each of these."""

from importlib import import_module

from tests.faults.subscribers.subscriber import Subscriber

FRONTS = {
    "framed": "framed.Framed",
    "provider": "provider.Provider",
    "websocket": "websocket.WebSocket",
    "mqtt": "mqtt.Mqtt",
    "amqp": "amqp.Amqp",
    "amqp1": "amqp1.Amqp1",
    "capnp": "rpc.Capnp",
    "grpc": "rpc.Grpc",
}
"""Module and class of each consumer, loaded by those who need it: some take long."""
UNHURRIED = {"amqp1", "capnp", "grpc"}
"""Their clients look at one message at a time, so that the proofs take long."""
ALONE = {"capnp"}
"""pycapnp bears one event loop in a thread, so that a process can hold one such consumer."""


def subscriber_of(front: str) -> type[Subscriber]:
    """Return the class of a front's consumers."""
    module, _, name = FRONTS[front].partition(".")
    found: type[Subscriber] = getattr(import_module(f"tests.faults.subscribers.{module}"), name)
    return found

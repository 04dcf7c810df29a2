"""The simulated devices over HTTP, for the button of the web console."""

from typing import Annotated

import msgspec
from msgspec import Meta

from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.iot.demo import DemoState

DEVICES_MAX = 5_000


class DemoOrder(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many devices to simulate."""

    devices: Annotated[int, Meta(ge=1, le=DEVICES_MAX)] = 200


async def show_demo(call: Call) -> DemoState:
    """Say whether simulated devices are there."""
    return call.shared.demo.state


async def start_demo(call: Call, body: DemoOrder) -> DemoState:
    """Start simulated devices, so that there is something to see: `{"devices": 200}`."""
    call.check(Operation.ALTER, Kind.CLUSTER)
    if not call.shared.settings.demo:
        raise InvalidRequest("http.demo is off: run `chordmq demo` yourself")
    address = call.request.app.state.info().get("mqtt")
    if address is None:
        raise InvalidRequest("the node does not serve MQTT, which the devices would speak")
    authenticator = call.request.state.authenticator
    if authenticator is not None and authenticator.is_required:
        raise InvalidRequest("clients of this node log in: run `chordmq --user NAME demo` yourself")
    await call.shared.demo.start(address, body.devices)
    return call.shared.demo.state


async def stop_demo(call: Call) -> None:
    """Stop the simulated devices."""
    call.check(Operation.ALTER, Kind.CLUSTER)
    await call.shared.demo.stop()


ROUTES = [
    Api("GET", "/v1/demo", show_demo),
    Api("POST", "/v1/demo", start_demo),
    Api("DELETE", "/v1/demo", stop_demo),
]

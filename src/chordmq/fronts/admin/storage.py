"""The node's files over HTTP: how far its logs have grown, for those who copy them."""

import msgspec

from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.storage.backup import Position


class Positions(msgspec.Struct, frozen=True):
    """All logs at one moment."""

    data_dir: str
    logs: dict[str, Position]


async def show_positions(call: Call) -> Positions:
    """Say how far each log has grown, all at one moment; `chordmq backup` copies so much."""
    call.check(Operation.ALTER, Kind.CLUSTER)
    broker = call.broker
    if broker.clustering is not None:
        raise InvalidRequest(
            "a node of a cluster is not backed up by itself: its topics are in etcd"
        )
    logs = {}
    for partition in broker.partitions():  # without a pause: nothing is appended meanwhile
        log = partition.log
        active = log.segments[-1]
        logs[log.name] = Position(active.base_offset, active.size, active.next_offset)
    return Positions(str(broker.database.path.parent.absolute()), logs)


ROUTES = [Api("GET", "/v1/storage/positions", show_positions)]

"""Copies of what other clusters wrote, over HTTP: how far they go, where to go on, and more."""

import uuid
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException

from chordmq.broker.origins import known_at, place_after
from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.batches import partition_of, readable
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import LONG_MAX, Offset
from chordmq.records.origin import NO_PRODUCER, cluster_number, origin_id
from chordmq.topology.inlet import Inlet

OCTETS = "application/octet-stream"
PARTITION = "/v1/topics/{topic}/partitions/{partition}"


class OriginsQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """For whom: who has all before this offset; the end of the partition if nothing is said."""

    offset: Offset = LONG_MAX


class CopyQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where batches come from that do not say it themselves: the `own` of the source's origins."""

    source: str


class Place(msgspec.Struct, frozen=True):
    """Where to go on."""

    offset: int


class OriginList(msgspec.Struct, frozen=True):
    """What is known of origins; each is a number that stands for a cluster and a topic of it."""

    own: str
    """The origin of what was first written here."""
    end: int
    """Where the partition ends."""
    next: dict[str, int]
    """The offset that comes next there, by origin."""


class Copied(msgspec.Struct, frozen=True):
    """What became of batches."""

    copied: int
    """Records that were appended."""
    repeated: int
    """Records that were here already."""


async def show_origins(call: Call, query: OriginsQuery) -> OriginList:
    """Show how far the partition has what each cluster wrote first, up to an offset."""
    partition = readable(call)
    own, end = _own(call), partition.stable_offset
    known = known_at(partition, own, min(query.offset, end))
    return OriginList(str(own), end, {str(one): offset for one, offset in known.items()})


async def find_place(call: Call, body: dict[str, int]) -> Place:
    """Return from which offset on there may be something new for whoever has so much.

    The body is the offset that comes next, by origin. What follows may hold what is known.
    """
    partition = readable(call)
    known = {_number(name): offset for name, offset in body.items()}
    return Place(place_after(partition, _own(call), known))


async def append_batches(call: Call, query: CopyQuery) -> Copied:
    """Append batches of another cluster, each once: those that are here already are left out.

    The batches come as another node gave them out; those first written here do not come back.
    """
    call.check(Operation.WRITE, Kind.TOPIC, call.path("topic"))
    partition = partition_of(call)
    partition.check_leading()
    if call.media != OCTETS:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {OCTETS}")
    source = _number(query.source)
    if source >= NO_PRODUCER:
        raise InvalidRequest(f"{source} is no origin")
    inlet = Inlet(partition, cluster_number(call.broker.cluster_id))
    return Copied(await inlet.take(source, bytearray(await call.octets())), inlet.repeated)


def _own(call: Call) -> int:
    topic = call.broker.topics.get(call.path("topic"))
    return origin_id(call.broker.cluster_id, str(uuid.UUID(bytes=topic.id)))


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidRequest(f"{text[:30]!r} is no origin")
    return int(text)


ROUTES = [
    Api("GET", PARTITION + "/origins", show_origins),
    Api("POST", PARTITION + "/place", find_place),
    Api("POST", PARTITION + "/batches", append_batches, takes={OCTETS: bytes}),
]

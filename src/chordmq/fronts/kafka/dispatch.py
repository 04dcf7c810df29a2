"""The table of Kafka APIs: which versions this node speaks, and who answers them.

What answers an API is loaded with its first request: most clients use few of them.
"""

from asyncio import Future
from collections.abc import Callable, Coroutine
from functools import cache, cached_property
from importlib import import_module
from typing import Any, get_type_hints

from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.codecs.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.errors import DecodeError
from chordmq.fronts.kafka import errors
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.produce import SmallProduce

Buffers = list[Buffer]
Result = (
    Buffers | Future[Buffers | None] | Coroutine[None, None, Buffers | None] | SmallProduce | None
)

PRODUCE, FETCH = 0, 1
JOIN_GROUP, SYNC_GROUP = 11, 14
SHARE_FETCH = 78
API_VERSIONS = 18
FEATURES = {"group.version": 1, "share.version": 1, "transaction.version": 2}
"""What the whole cluster does, at which level; clients choose their protocols by it."""


class Api:
    """One API."""

    def __init__(self, key: int, place: str) -> None:
        """Name the handler, as `module.function` of this package."""
        self.name = CODECS[key].name
        self.versions = CODECS[key].versions
        self.place = place
        self.is_pipelined = key == PRODUCE
        self.waits_for_others = key in (FETCH, JOIN_GROUP, SYNC_GROUP, SHARE_FETCH)
        """The answer waits for new records or members of a group, not for this node's work."""

    @cached_property
    def handle(self) -> Callable[..., Any]:
        """Return what answers a request."""
        module, name = self.place.split(".")
        handler: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
        return handler

    @cached_property
    def request(self) -> type[Any] | None:
        """Return the message that the handler takes; None if it reads the frame itself."""
        return get_type_hints(self.handle).get("request")


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell the client which APIs and versions it may use."""
    return _supported()


@cache
def _supported() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=_advertised(),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


@cache
def _written_once(version: int) -> bytes:
    return bytes(encode(_supported(), version))


def answer(api: Api, call: Call, frame: memoryview, header: RequestHeader) -> Result:
    """Answer at once, by a future or coroutine, at the turn's end, or (acks=0) not at all."""
    if api.request is None:
        result: Result = api.handle(call, frame, header.body)
        return result
    request = decode(api.request, call.version, frame, header.body)
    if api.handle is api_versions:  # asked first by every connection, and always the same
        return [bytearray(_written_once(call.version))]
    response = api.handle(call, request)
    if isinstance(response, Coroutine):
        return _encoded(response, call.version)
    return [encode(response, call.version)]


async def _encoded(work: Coroutine[None, None, Any], version: int) -> Buffers:
    return [encode(await work, version)]


def refuse_version(header: RequestHeader) -> Buffers:
    """Answer ApiVersions so that the client can step down; for any other API, hang up."""
    if header.api_key != API_VERSIONS:
        raise DecodeError(f"API {header.api_key} version {header.api_version} is not supported")
    versions = APIS[API_VERSIONS].versions
    entry = ApiVersion(
        api_key=API_VERSIONS, min_version=versions.start, max_version=versions.stop - 1
    )
    response = ApiVersionsResponse(error_code=errors.UNSUPPORTED_VERSION, api_keys=[entry])
    return [encode(response, 0)]


def _advertised() -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=key,
            # librdkafka switches compression off unless Produce 0 is listed (KAFKA-18659);
            # requests below the real minimum are refused as Kafka does.
            min_version=0 if key == PRODUCE else api.versions.start,
            max_version=api.versions.stop - 1,
        )
        for key, api in sorted(APIS.items())
    ]


_HANDLERS = {
    0: "produce.produce",
    1: "fetch.fetch",
    2: "list_offsets.list_offsets",
    3: "metadata.metadata",
    8: "offsets.offset_commit",
    9: "offsets.offset_fetch",
    10: "cluster.find_coordinator",
    11: "groups.join_group",
    12: "groups.heartbeat",
    13: "groups.leave_group",
    14: "groups.sync_group",
    15: "groups.describe_groups",
    16: "groups.list_groups",
    17: "sasl.sasl_handshake",
    18: "dispatch.api_versions",
    19: "topics.create_topics",
    20: "topics.delete_topics",
    21: "topics.delete_records",
    22: "transactions.init_producer_id",
    23: "list_offsets.offset_for_leader_epoch",
    24: "transactions.add_partitions_to_txn",
    25: "transactions.add_offsets_to_txn",
    26: "transactions.end_txn",
    27: "transactions.write_txn_markers",
    28: "transactions.txn_offset_commit",
    29: "acls.describe_acls",
    30: "acls.create_acls",
    31: "acls.delete_acls",
    32: "configs.describe_configs",
    33: "configs.alter_configs",
    35: "cluster.describe_log_dirs",
    36: "sasl.sasl_authenticate",
    37: "topics.create_partitions",
    42: "groups.delete_groups",
    43: "replicas.elect_leaders",
    44: "configs.incremental_alter_configs",
    45: "replicas.alter_partition_reassignments",
    46: "replicas.list_partition_reassignments",
    47: "offsets.offset_delete",
    48: "quotas.describe_client_quotas",
    49: "quotas.alter_client_quotas",
    50: "scram_credentials.describe_user_scram_credentials",
    51: "scram_credentials.alter_user_scram_credentials",
    60: "cluster.describe_cluster",
    61: "cluster.describe_producers",
    64: "replicas.unregister_broker",
    65: "transactions.describe_transactions",
    66: "transactions.list_transactions",
    68: "consumer_groups.consumer_group_heartbeat",
    69: "consumer_groups.consumer_group_describe",
    74: "configs.list_config_resources",
    75: "metadata.describe_topic_partitions",
    76: "share_groups.share_group_heartbeat",
    77: "share_groups.share_group_describe",
    78: "share_fetch.share_fetch",
    79: "share_fetch.share_acknowledge",
    90: "share_groups.describe_share_group_offsets",
    91: "share_groups.alter_share_group_offsets",
    92: "share_groups.delete_share_group_offsets",
}
APIS = {key: Api(key, place) for key, place in _HANDLERS.items()}

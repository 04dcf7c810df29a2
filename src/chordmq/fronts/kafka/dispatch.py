"""The table of Kafka APIs: which versions this node speaks, and who answers them."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from asyncio import Future
from typing import Any

from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.codecs.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from chordmq.codecs.kafka.messages.list_offsets import ListOffsetsRequest
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdRequest
from chordmq.codecs.kafka.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.errors import DecodeError
from chordmq.fronts.kafka import errors, fetch, list_offsets, produce
from chordmq.fronts.kafka.call import Call

Buffers = list[Buffer]
Result = Buffers | Future[Buffers | None] | Coroutine[None, None, Buffers | None] | None

API_VERSIONS = 18
PRODUCE = 0


@dataclass(frozen=True, slots=True)
class Api:
    """One API. `request` is None when the handler reads the frame itself."""

    name: str
    versions: range
    handle: Callable[..., Any]
    request: type[Any] | None = None
    is_pipelined: bool = False


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell the client which APIs and versions it may use."""
    return ApiVersionsResponse(api_keys=_advertised())


def answer(api: Api, call: Call, frame: memoryview, header: RequestHeader) -> Result:
    """Answer one request: at once, by a future, by a coroutine, or (acks=0) not at all."""
    if api.request is None:
        result: Result = api.handle(call, frame, header.body)
        return result
    response = api.handle(call, decode(api.request, call.version, frame, header.body))
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


def _api(key: int, handle: Callable[..., Any], request: type[Any] | None = None) -> tuple[int, Api]:
    codec = CODECS[key]
    return key, Api(codec.name, codec.versions, handle, request, is_pipelined=key == PRODUCE)


APIS: dict[int, Api] = dict(
    [
        _api(0, produce.produce),
        _api(1, fetch.fetch),
        _api(2, list_offsets.list_offsets, ListOffsetsRequest),
        _api(18, api_versions, ApiVersionsRequest),
        _api(22, produce.init_producer_id, InitProducerIdRequest),
        _api(23, list_offsets.offset_for_leader_epoch, OffsetForLeaderEpochRequest),
    ]
)

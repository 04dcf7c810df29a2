"""The data pipeline over HTTP: how far its queries are, as its own process tells it."""

import asyncio

import msgspec

from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.iot.queries import QueryState, states

ANSWER_BYTES_MAX = 1 << 20
PATIENCE_S = 2.0


class PipelineState(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline beside this node."""

    reachable: bool
    """Whether it answers at `http.pipeline`."""
    queries: list[QueryState]


async def show_pipeline(call: Call) -> PipelineState:
    """Show the queries of the pipeline that runs beside the node: lag, rates, failures."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    try:
        async with asyncio.timeout(PATIENCE_S):
            text = await _metrics(call.shared.settings.pipeline)
    except (OSError, TimeoutError, ValueError):
        return PipelineState(reachable=False, queries=[])
    return PipelineState(reachable=True, queries=states(text))


async def _metrics(address: str) -> str:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = b""
        while chunk := await reader.read(ANSWER_BYTES_MAX - len(answer)):
            answer += chunk
        return answer.decode()
    finally:
        writer.close()


ROUTES = [Api("GET", "/v1/pipeline", show_pipeline)]

"""The data pipeline over HTTP: how far its queries are, as its own process tells it."""

import asyncio
import re
from collections import defaultdict

import msgspec

from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call

ANSWER_BYTES_MAX = 1 << 20
PATIENCE_S = 2.0
_LINE = re.compile(r'^chordmq_pipeline_(\w+)\{query="([^"]+)"\} ([0-9.eE+-]+)$', re.MULTILINE)


class QueryState(msgspec.Struct, frozen=True, kw_only=True):
    """One query of the pipeline."""

    query: str
    running: bool = False
    batch: int = -1
    """The number of its last micro-batch."""
    rows: int = 0
    """Rows since the pipeline started."""
    lag_records: int = 0
    failures: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    batch_duration_milliseconds: int = 0
    state_rows: int = 0
    state_bytes: int = 0


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


def states(text: str) -> list[QueryState]:
    """Read the queries out of what Prometheus would be told."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, query, value in _LINE.findall(text):
        found[query][name.removesuffix("_total")] = float(value)
    return [
        msgspec.convert({"query": query, **_typed(numbers)}, QueryState)
        for query, numbers in sorted(found.items())
    ]


def _typed(numbers: dict[str, float]) -> dict[str, object]:
    kinds = QueryState.__annotations__
    known = {name: value for name, value in numbers.items() if name in kinds}
    return {name: kinds[name](value) for name, value in known.items()}


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

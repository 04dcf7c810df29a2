"""What the data pipeline tells of its queries: its own process as metrics, a node over HTTP."""

import re
from collections import defaultdict

import msgspec

PREFIX = "chordmq_pipeline_"
_LINE = re.compile(rf'^{PREFIX}(\w+)\{{query="([^"]+)"\}} ([0-9.eE+-]+)$', re.MULTILINE)


class QueryState(msgspec.Struct, kw_only=True):
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


GAUGES = {
    "running": "Whether the query runs.",
    "batch": "Number of the last batch.",
    "lag_records": "Offsets between the query and the end of its topics.",
    "input_rows_per_second": "Rows that arrived per second.",
    "processed_rows_per_second": "Rows that were processed per second.",
    "batch_duration_milliseconds": "How long the last batch took.",
    "state_rows": "Rows that the query remembers.",
    "state_bytes": "Memory of what the query remembers.",
}
COUNTERS = {
    "rows": "Rows that the query has read.",
    "failures": "How often the query has failed.",
}


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

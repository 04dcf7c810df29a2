"""The pipeline's progress through the node: as its process tells it, or that it is not there."""

import json
import urllib.request
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, start_http_server

from chordmq.iot.queries import QueryState
from chordmq_spark.progress import Progress
from tests.conftest import StartNode
from tests.running_node import RunningNode, free_port


def ask(node: RunningNode) -> dict[str, Any]:
    with urllib.request.urlopen(f"{node.http}/v1/pipeline", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_queries_are_shown_with_lag_rates_and_failures(start_node: StartNode) -> None:
    """P7: what Spark's listener knows of each query, over the node's HTTP API."""
    progress = Progress()
    told = [
        QueryState(
            query="telemetry", running=True, batch=7, rows=1_000, failures=2, lag_records=30,
            input_rows_per_second=10.5, state_rows=4,
        ),
        QueryState(query="watch"),
    ]  # fmt: skip
    progress.queries |= {state.query: state for state in told}
    registry = CollectorRegistry()
    registry.register(progress)
    port = free_port()
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    try:
        found = ask(start_node({"http.pipeline": f"127.0.0.1:{port}"}))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert found == {"reachable": True, "queries": msgspec.to_builtins(told)}


def test_a_node_without_a_pipeline_says_so(start_node: StartNode) -> None:
    node = start_node({"http.pipeline": f"127.0.0.1:{free_port()}"})
    assert ask(node) == {"reachable": False, "queries": []}

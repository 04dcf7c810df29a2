"""The HTTP interface, called as an ASGI application."""

import logging
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from chordmq import logs
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.bodies import BODY_SIZE_MAX
from chordmq.metrics import Metrics, counter


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in (None, "chordmq.metrics")}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def waiting() -> list[str]:
    return []


@pytest.fixture
async def client(waiting: list[str]) -> AsyncIterator[httpx.AsyncClient]:
    def broken() -> dict[str, object]:
        raise RuntimeError("secret detail")

    metrics = Metrics()
    metrics.add(lambda: [counter("chordmq_things", "Things counted.", 3)])
    app = application(Admin(metrics=metrics, waiting=lambda: waiting, info=broken))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        yield client


async def test_a_node_that_runs_is_healthy(client: httpx.AsyncClient, waiting: list[str]) -> None:
    """B6: health does not depend on readiness."""
    waiting.append("logs are being recovered")
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_node_is_ready_when_it_waits_for_nothing(
    client: httpx.AsyncClient, waiting: list[str]
) -> None:
    """B6: not ready is said with the reasons."""
    waiting.append("logs are being recovered")
    answer = await client.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "reasons": ["logs are being recovered"]}
    waiting.clear()
    answer = await client.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


async def test_metrics_are_in_the_form_that_prometheus_reads(client: httpx.AsyncClient) -> None:
    """C15: the node's numbers and those of its process."""
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE chordmq_things_total counter\nchordmq_things_total 3.0\n" in answer.text
    assert "process_resident_memory_bytes" in answer.text


async def test_log_levels_change_while_the_node_runs(client: httpx.AsyncClient) -> None:
    """C15: per module, and back to what the parent says."""
    logger = logging.getLogger("chordmq.metrics")
    answer = await client.put("/v1/log-levels", json={"chordmq.metrics": "debug"})
    assert answer.status_code == 200
    assert answer.json()["levels"]["chordmq.metrics"] == "debug"
    assert logger.isEnabledFor(logging.DEBUG)
    answer = await client.put("/v1/log-levels", json={"chordmq.metrics": None, "root": "error"})
    assert "chordmq.metrics" not in answer.json()["levels"]
    assert not logger.isEnabledFor(logging.WARNING)
    assert (await client.get("/v1/log-levels")).json() == answer.json()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"root": "loud"}', "no log level is called 'loud'"),
        (b'{"root": 7}', "no log level is called 7"),
        (b'{"root": null}', "the root needs a level"),
        (b'{"chordmq.metric": "info"}', "did you mean 'chordmq.metrics'?"),
        (b'["root"]', "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
    ],
)
async def test_a_log_level_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, body: bytes, complaint: str
) -> None:
    answer = await client.put("/v1/log-levels", content=body)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error", "message"}
    assert complaint in answer.json()["message"]


async def test_of_several_levels_all_change_or_none(client: httpx.AsyncClient) -> None:
    before = logs.levels()
    answer = await client.put("/v1/log-levels", json={"root": "debug", "nowhere": "debug"})
    assert answer.status_code == 400
    assert logs.levels() == before


async def test_a_body_over_the_limit_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/log-levels", content=b" " * (BODY_SIZE_MAX + 1))
    assert answer.status_code == 413
    assert "bytes" in answer.json()["message"]


async def test_errors_have_one_form(client: httpx.AsyncClient) -> None:
    for answer, status, error in [
        (await client.get("/nowhere"), 404, "NotFound"),
        (await client.post("/ready"), 405, "MethodNotAllowed"),
        (await client.get("/v1/info"), 500, "InternalError"),
    ]:
        assert answer.status_code == status
        assert answer.json()["error"] == error
        assert "secret" not in answer.text

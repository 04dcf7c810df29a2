"""Shows over HTTP how a source is: `/health` for people and probes, `/metrics` for Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordmq.cdc.errors import CdcError
from chordmq.cdc.measures import Measures
from chordmq.cdc.rendering import CannotTell
from chordmq.metrics import CONTENT_TYPE, Metrics

UNHEALTHY = 503


def application(measures: Measures) -> Starlette:
    """Return the application of one source."""
    metrics = Metrics()
    metrics.add(measures.read)

    async def health(request: Request) -> Response:
        status = 200 if measures.healthy else UNHEALTHY
        return JSONResponse(measures.summary(), status_code=status)

    async def numbers(request: Request) -> Response:
        return Response(metrics.text(metrics.read()), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/health", health), Route("/metrics", numbers)])


@asynccontextmanager
async def serving(measures: Measures, host: str, port: int) -> AsyncIterator[None]:
    """Answer for the length of a block; port 0 means not at all."""
    if not port:
        yield
        return
    config = uvicorn.Config(
        application(measures), host=host, port=port, log_level="warning", log_config=None
    )
    server = _Server(config)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        try:
            yield
        except (CdcError, CannotTell) as error:
            failure = error  # from here it would be raised as one of a group
        finally:
            server.should_exit = True
    if failure is not None:
        raise failure


class _Server(uvicorn.Server):
    """Leaves the signals of the process to whoever runs the source."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

"""The HTTP front: its routes, and how the node is, what it measures and how much it logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordmq import logs
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError
from chordmq.fronts.admin import (
    batches,
    clients,
    cluster,
    console,
    copies,
    cursors,
    demo,
    devices,
    groups,
    pages,
    permissions,
    pipeline,
    pipes,
    queues,
    records,
    routes,
    storage,
    stream,
    topics,
    users,
)
from chordmq.fronts.admin.bodies import read_object
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.errors import fail, refuse, refuse_by_status
from chordmq.fronts.admin.forwarding import Deputy
from chordmq.fronts.admin.login import Door, Login, check_super
from chordmq.fronts.admin.management import routes as management
from chordmq.metrics import CONTENT_TYPE, OPEN_CONTENT_TYPE, OPEN_MEDIA, Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """What the HTTP interface shows of a node."""

    metrics: Metrics
    waiting: Callable[[], list[str]]
    """Returns the reasons why the node does not serve clients; none when it does."""
    info: Callable[[], Mapping[str, Any]]
    """Returns what the node says about itself."""
    door: Door = field(default_factory=Door)
    shared: Shared = field(default_factory=Shared)
    outermost: Sequence[Middleware] = ()
    """What every request passes first."""


class AdminApp:
    """The routes and their answers."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def healthz(self, _request: Request) -> Response:
        """Answer as long as the event loop turns."""
        return JSONResponse({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """Say whether clients can be served, and if not, why."""
        reasons = self._admin.waiting()
        if reasons:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return JSONResponse({"status": "not ready", "reasons": reasons}, status)
        return JSONResponse({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        """Return every measure in Prometheus' text form, or in that of OpenMetrics if asked for."""
        metrics = self._admin.metrics
        # The numbers are read on the event loop that owns them, and written down in a thread.
        is_open = OPEN_MEDIA in request.headers.get("accept", "")
        text = await asyncio.to_thread(metrics.text, metrics.read(), is_open=is_open)
        return Response(text, media_type=OPEN_CONTENT_TYPE if is_open else CONTENT_TYPE)

    async def info(self, _request: Request) -> Response:
        """Say who this node is and where it listens."""
        return JSONResponse(self._admin.info())

    async def log_levels(self, request: Request) -> Response:
        """Show the log levels, or change some: `{"chordmq.fronts": "debug", "asyncio": null}`."""
        if request.method == "PUT":
            if request.state.authenticator is not None:
                check_super(request)
            wanted = await read_object(request)
            for module, level in wanted.items():
                logs.check_level(module, level)
            for module, level in wanted.items():
                logs.set_level(module, level)
        return JSONResponse({"levels": logs.levels(), "modules": logs.modules()})


def application(admin: Admin) -> Starlette:
    """Return the HTTP interface of a node."""
    app = AdminApp(admin)
    site = Starlette(
        routes=[
            Route("/healthz", app.healthz),
            Route("/ready", app.ready),
            Route("/metrics", app.metrics),
            Route("/v1/info", app.info),
            Route("/v1/log-levels", app.log_levels, methods=["GET", "PUT"]),
            *topics.ROUTES,
            *records.ROUTES,
            *stream.ROUTES,
            *batches.ROUTES,
            *copies.ROUTES,
            *cursors.ROUTES,
            *groups.ROUTES,
            *cluster.ROUTES,
            *clients.ROUTES,
            *devices.ROUTES,
            *demo.ROUTES,
            *users.ROUTES,
            *permissions.ROUTES,
            *queues.ROUTES,
            *management.ROUTES,
            *routes.ROUTES,
            *storage.ROUTES,
            *pipeline.ROUTES,
            *pipes.ROUTES,
            *pages.ROUTES,
            *console.ROUTES,
        ],
        middleware=[*admin.outermost, Middleware(Login, door=admin.door)],
        exception_handlers={
            ChordMQError: refuse,
            HTTPException: refuse_by_status,
            Exception: fail,
        },
    )
    site.state.shared = admin.shared
    site.state.info = admin.info
    admin.shared.deputy = Deputy(site)
    return site

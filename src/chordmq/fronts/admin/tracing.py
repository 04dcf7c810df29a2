"""A span around each HTTP request, for nodes that trace."""

from typing import TYPE_CHECKING

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chordmq.clock import Clock
from chordmq.tracing.parents import TRACEPARENT

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing

TRACED_PREFIX = "/v1/"
"""What stands elsewhere is looked at by probes and browsers."""
SERVER_FAULT = 500


def traced(tracing: "Tracing | None", clock: Clock) -> list[Middleware]:
    """Return what every request passes on a node that traces; nothing on others."""
    return [] if tracing is None else [Middleware(Traced, tracing=tracing, clock=clock)]


def _route(scope: Scope) -> str:
    """Return the path with the names of its parts instead of what stands there."""
    path = str(scope["path"])
    for name, value in scope.get("path_params", {}).items():
        path = path.replace(f"/{value}", f"/{{{name}}}", 1)
    return path


class Traced:
    """The routes behind it, with a span that continues the client's trace if it names one."""

    def __init__(self, app: ASGIApp, tracing: "Tracing", clock: Clock) -> None:
        self._app = app
        self._tracing = tracing
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith(TRACED_PREFIX):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        parent = headers.get(TRACEPARENT.encode(), b"").decode("latin-1")
        about = {"http.request.method": scope["method"], "url.path": scope["path"]}
        now_s = self._clock.monotonic_s()
        request = self._tracing.begin("http", scope["method"], now_s, parent, **about)
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        fault: BaseException | None = None
        try:
            with self._tracing.current(request):
                await self._app(scope, receive, told)
        except BaseException as error:
            fault = error
            raise
        finally:
            request.operation = f"{scope['method']} {_route(scope)}"
            request.span.update_name(request.operation)
            request.span.set_attribute("http.response.status_code", status)
            if status >= SERVER_FAULT and fault is None:
                fault = RuntimeError(f"answered with {status}")
            self._tracing.end(request, self._clock.monotonic_s(), fault)

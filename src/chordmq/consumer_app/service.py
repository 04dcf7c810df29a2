"""The consumer application's REST interface: queries over the local data set, and its export."""

import asyncio
import hmac
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chordmq.clock import SystemClock
from chordmq.consumer_app.data_set import Wanted
from chordmq.consumer_app.follower import AppSettings, Follower
from chordmq.consumer_app.store import IMPORT_PREFIX, Store
from chordmq.metrics import CONTENT_TYPE, Metrics, counter, gauge

LIMIT_MAX = 10_000
IMPORT_BYTES_MAX = 64 << 30
LOOPBACK = ("127.0.0.1", "::1", "localhost")
VARIABLES = {
    "CONSUMER_TYPE": "kind",
    "CONSUMER_TOPIC": "topic",
    "CONSUMER_GROUP": "group",
    "CONSUMER_PORT": "port",
    "CONSUMER_HOST": "host",
    "BROKER_HOST": "broker_host",
    "BROKER_PORT": "broker_port",
    "BROKER_TOKEN": "broker_token",
    "BROKER_TLS": "broker_tls",
    "BROKER_TLS_CA": "broker_tls_ca",
    "BROKER_TLS_CERTIFICATE": "broker_tls_certificate",
    "BROKER_TLS_KEY": "broker_tls_key",
    "CONSUMER_TOKEN": "token",
    "CONSUMER_TLS_CERTIFICATE": "tls_certificate",
    "CONSUMER_TLS_KEY": "tls_key",
    "STORAGE_DATA_DIR": "directory",
}


def from_environment(environment: Mapping[str, str]) -> AppSettings:
    """Return the settings, or raise ValueError with the name of the variable that is wrong."""
    values: dict[str, Any] = {
        name: environment[variable]
        for variable, name in VARIABLES.items()
        if environment.get(variable)
    }
    if "topic" not in values:
        raise ValueError("CONSUMER_TOPIC must say which topic to consume")
    values.setdefault("group", f"consumer-app-{values['topic']}")
    for variable in ("CONSUMER_PORT", "BROKER_PORT"):
        name = VARIABLES[variable]
        if name in values:
            if not values[name].isdigit():
                raise ValueError(f"{variable} is not a port: {values[name]!r}")
            values[name] = int(values[name])
    if "directory" in values:
        values["directory"] = Path(values["directory"])
    if "broker_tls" in values:
        values["broker_tls"] = values["broker_tls"].lower() in ("1", "true", "yes", "on")
    settings = AppSettings(**values)
    if settings.host not in LOOPBACK and not settings.token:
        raise ValueError("beyond this machine clients must prove who they are: set CONSUMER_TOKEN")
    return settings


def application(settings: AppSettings) -> Starlette:
    """Return the whole application: it follows its topic while it serves."""
    store = Store(settings.directory, SystemClock())
    follower = Follower(settings, store)
    api = Api(settings, store, follower)

    @asynccontextmanager
    async def living(_app: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follower.run())
            yield
            following.cancel()
        store.close()

    return Starlette(
        routes=[
            Route("/health", api.health),
            Route("/metrics", api.metrics),
            Route("/v1/messages", api.messages),
            Route("/v1/latest", api.latest),
            Route("/v1/latest/{key:path}", api.latest_of),
            Route("/v1/export", api.export),
            Route("/v1/import", api.take, methods=["PUT"]),
        ],
        lifespan=living,
        middleware=[Middleware(Guard, token=settings.token)] if settings.token else [],
        exception_handlers={ValueError: _refuse},
    )


class Guard:
    """Lets nobody past without the token; health and metrics are for everybody."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            shown = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(shown, self._token):
                body = {"error": "AuthenticationFailed", "message": "a token is needed"}
                await JSONResponse(body, HTTPStatus.UNAUTHORIZED)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Api:
    """The routes and their answers."""

    def __init__(self, settings: AppSettings, store: Store, follower: Follower) -> None:
        self._settings = settings
        self._store = store
        self._follower = follower

    async def health(self, _request: Request) -> Response:
        """Say whether the broker is there, and how far the data set is."""
        follower = self._follower
        with self._store.querying() as data:
            count = await asyncio.to_thread(data.count)
        return JSONResponse(
            {
                "status": "HEALTHY" if follower.is_connected else "DEGRADED",
                "type": self._settings.kind,
                "topic": self._settings.topic,
                "group": self._settings.group,
                "error": follower.error,
                "messages": count,
                "refreshing": any(one.begun > one.current for one in data.refresh.stages.values()),
            }
        )

    async def metrics(self, _request: Request) -> Response:
        """Return the measures in Prometheus' text form."""
        follower, metrics = self._follower, Metrics()
        metrics.add(
            lambda: [
                counter("chordmq_consumer_messages", "Messages taken.", follower.messages),
                gauge("chordmq_consumer_connected", "Whether the broker is there.",
                      int(follower.is_connected)),
            ]
        )  # fmt: skip
        return PlainTextResponse(metrics.text(metrics.read()), media_type=CONTENT_TYPE)

    async def messages(self, request: Request) -> Response:
        """Find messages: `key`, `from_ms`, `to_ms`, `text`, `limit`, `after` of the page before."""
        query = request.query_params
        limit = _limit(query)
        key = query.get("key")
        wanted = Wanted(
            key=key.encode() if key is not None else None,
            start_ms=_number(query, "from_ms"),
            stop_ms=_number(query, "to_ms"),
            text=query.get("text"),
            after=_place(query.get("after")),
            limit=limit,
        )
        with self._store.querying() as data:
            rows = await asyncio.to_thread(data.find, wanted)
        last = rows[-1] if len(rows) == limit else None
        after = f"{last['partition']}:{last['offset']}" if last is not None else None
        return JSONResponse({"messages": rows, "after": after})

    async def latest(self, request: Request) -> Response:
        """Return the newest message of each key, in the order of keys, page by page."""
        query = request.query_params
        limit = _limit(query)
        after = query.get("after", "").encode()
        with self._store.querying() as data:
            rows = await asyncio.to_thread(data.newest_of_all, after, limit)
        return JSONResponse(
            {"messages": rows, "after": rows[-1]["key"] if len(rows) == limit else None}
        )

    async def latest_of(self, request: Request) -> Response:
        """Return the newest message of a key."""
        key = request.path_params["key"]
        # One message takes less time than a thread needs to begin.
        row = self._store.data.newest(key.encode())
        if row is None:
            message = {"error": "UnknownKey", "message": f"no message has the key {key!r}"}
            return JSONResponse(message, HTTPStatus.NOT_FOUND)
        return JSONResponse(row)

    async def export(self, _request: Request) -> Response:
        """Return the current data set as a SQLite file with one table, `messages`."""
        directory = tempfile.TemporaryDirectory()
        target = Path(directory.name) / "export.db"
        with self._store.querying() as data:
            await asyncio.to_thread(data.export, target)
        return FileResponse(
            target,
            media_type="application/vnd.sqlite3",
            filename=f"{self._settings.topic}.db",
            background=BackgroundTask(directory.cleanup),
        )

    async def take(self, request: Request) -> Response:
        """Serve an exported data set in place of this one, and follow the topic from its end on."""
        where = self._settings.directory
        with tempfile.TemporaryDirectory(prefix=IMPORT_PREFIX, dir=where) as directory:
            path = Path(directory) / "import.db"
            size = 0
            with path.open("wb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > IMPORT_BYTES_MAX:
                        raise ValueError(f"over {IMPORT_BYTES_MAX} bytes")
                    await asyncio.to_thread(file.write, chunk)
            count = await self._store.take(path)
        return JSONResponse({"messages": count})


def _refuse(_request: Request, error: Exception) -> Response:
    message = {"error": "InvalidRequest", "message": str(error)}
    return JSONResponse(message, HTTPStatus.BAD_REQUEST)


def _limit(query: Mapping[str, str]) -> int:
    limit = _number(query, "limit")
    return min(100 if limit is None else max(1, limit), LIMIT_MAX)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{name} is not a number: {text[:50]!r}")
    return int(text)


def _place(text: str | None) -> tuple[int, int]:
    if text is None:
        return (-1, -1)
    partition, _, offset = text.partition(":")
    if not (partition.isdigit() and offset.isdigit() and len(offset) < 19):
        raise ValueError(f"after is no place such as 0:17: {text[:50]!r}")
    return int(partition), int(offset)

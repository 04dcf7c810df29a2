"""The registry as a REST service: nodes register, operators pin, everybody follows the tree."""

import asyncio
import hmac
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.topology.registry.nodes import (
    DEAD_AFTER_MS,
    Pin,
    Registration,
    Topology,
    TopologyRefused,
    excused,
    expired,
    left,
    pinned,
    registered,
)
from chordmq.topology.registry.openapi import document

T = TypeVar("T")

LOOK_S = 0.5
WAIT_S_MAX = 60.0
BODY_SIZE_MAX = 64 * 1024
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """What an operator can say to a registry."""

    database: Path
    token: str = ""
    """What nodes must show; nothing: everybody may register."""
    operator_token: str = ""
    """What operators must show to pin and to remove; nothing: the nodes' token."""
    dead_after_ms: int = DEAD_AFTER_MS


class Store:
    """The newest tree in SQLite: on disk before anybody hears of it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS topology (version INTEGER PRIMARY KEY, tree TEXT NOT NULL)"
        )

    def load(self) -> Topology:
        """Return the newest tree; an empty one at first."""
        row = self._database.execute(
            "SELECT tree FROM topology ORDER BY version DESC LIMIT 1"
        ).fetchone()
        return msgspec.json.decode(row[0], type=Topology) if row else Topology()

    def save(self, topology: Topology) -> None:
        """Keep a tree, and no older one."""
        with self._database:
            text = msgspec.json.encode(topology).decode()
            self._database.execute(
                "INSERT OR REPLACE INTO topology VALUES (?, ?)", (topology.version, text)
            )
            self._database.execute("DELETE FROM topology WHERE version < ?", (topology.version,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class Registry:
    """The tree, its store, and those who wait for the next version."""

    def __init__(self, settings: RegistrySettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._store = Store(settings.database)
        self.topology = excused(self._store.load(), clock.now_ms())
        self._changed = asyncio.Event()

    def change(self, rule: Callable[..., Topology], *arguments: object) -> Topology:
        """Apply a rule; tell everybody who waits if places have changed."""
        before = self.topology
        after = rule(before, *arguments)
        if after.version != before.version:
            self._store.save(after)
        self.topology = after
        if after.version != before.version:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return after

    async def newer_than(self, version: int, wait_s: float) -> bool:
        """Wait until there is another version than this; False if there is none in time."""
        try:
            async with asyncio.timeout(wait_s):
                while self.topology.version == version:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Look again and again who has fallen silent."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.change(expired, self._clock.now_ms(), self.settings.dead_after_ms)

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock.now_ms()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def application(registry: Registry) -> Starlette:
    """Return the REST interface of a registry."""
    api = Api(registry)

    @asynccontextmanager
    async def living(_app: Starlette) -> AsyncIterator[None]:
        with closing(registry):
            async with asyncio.TaskGroup() as tasks:
                looking = tasks.create_task(registry.run())
                yield
                looking.cancel()

    return Starlette(
        routes=[
            Route("/healthz", api.healthz),
            Route("/openapi.json", api.openapi),
            Route("/v1/topology", api.show),
            Route("/v1/nodes/{node}", api.register, methods=["PUT"]),
            Route("/v1/nodes/{node}", api.leave, methods=["DELETE"]),
            Route("/v1/nodes/{node}/pin", api.pin, methods=["PUT"]),
        ],
        lifespan=living,
    )


def guarded(
    handler: Callable[["Api", Request], Awaitable[Response]],
) -> Callable[["Api", Request], Awaitable[Response]]:
    """Return a handler that answers what is refused with the reason, in one form."""

    async def safe(api: "Api", request: Request) -> Response:
        try:
            return await handler(api, request)
        except TopologyRefused as error:
            return _refusal(HTTPStatus.CONFLICT, "TopologyRefused", str(error))
        except msgspec.DecodeError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, "InvalidRequest", str(error))
        except PermissionError as error:
            return _refusal(HTTPStatus.UNAUTHORIZED, "AuthenticationFailed", str(error))

    return safe


class Api:
    """The routes and their answers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def healthz(self, _request: Request) -> Response:
        """Answer as long as the event loop turns."""
        return JSONResponse({"status": "ok"})

    async def openapi(self, _request: Request) -> Response:
        """Describe this API as OpenAPI 3.1."""
        return JSONResponse(document())

    @guarded
    async def show(self, request: Request) -> Response:
        """Return the tree; with `wait_s` and `If-None-Match`, when there is another version."""
        self._admit(request)
        known = request.headers.get("if-none-match", "").strip('"')
        try:
            wait_s = min(float(request.query_params.get("wait_s", "0")), WAIT_S_MAX)
        except ValueError:
            return _refusal(HTTPStatus.BAD_REQUEST, "InvalidRequest", "wait_s is not a number")
        is_new = not known.isdigit() or await self._registry.newer_than(int(known), wait_s)
        return self._tree(HTTPStatus.OK if is_new else HTTPStatus.NOT_MODIFIED)

    @guarded
    async def register(self, request: Request) -> Response:
        """Take a node into the tree, or note that it lives; answers with the tree."""
        self._admit(request)
        said = await _body(request, Registration)
        node = request.path_params["node"]
        self._registry.change(registered, node, said, self._registry.now_ms())
        return self._tree()

    @guarded
    async def leave(self, request: Request) -> Response:
        """Remove a node for good; its children get other parents."""
        self._admit(request, is_operator=True)
        self._registry.change(left, request.path_params["node"])
        return self._tree()

    @guarded
    async def pin(self, request: Request) -> Response:
        """Give a node the parent and role that an operator wants; null leaves it to policy."""
        self._admit(request, is_operator=True)
        self._registry.change(pinned, request.path_params["node"], await _body(request, Pin))
        return self._tree()

    def _tree(self, status: HTTPStatus = HTTPStatus.OK) -> Response:
        topology = self._registry.topology
        body = b"" if status is HTTPStatus.NOT_MODIFIED else msgspec.json.encode(topology)
        headers = {"etag": f'"{topology.version}"'}
        return Response(body, status, headers, JSON)

    def _admit(self, request: Request, *, is_operator: bool = False) -> None:
        """Refuse whoever does not show the token."""
        settings = self._registry.settings
        needed = settings.token
        if is_operator and settings.operator_token:
            needed = settings.operator_token
        shown = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        accepted = {needed, settings.operator_token} - {""}
        if needed and not any(hmac.compare_digest(shown, one.encode()) for one in accepted):
            raise PermissionError("a token is needed: Authorization: Bearer ...")


async def _body(request: Request, kind: type[T]) -> T:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_SIZE_MAX:
            raise msgspec.DecodeError(f"over {BODY_SIZE_MAX} bytes")
    return msgspec.json.decode(bytes(body), type=kind)


def _refusal(status: HTTPStatus, error: str, message: str) -> Response:
    return JSONResponse({"error": error, "message": message}, status)

"""Requests that only another node can answer, carried to it over the link and back."""

from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from chordmq.broker.security.principal import Principal
from chordmq.cluster.link import Caller, LinkDown, PeerRefused
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import ChordMQError, DecodeError, UnknownOutcome
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.errors import refuse, refuse_by_status

TIMEOUT_S = 20.0


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """A request, and who has made it; the node that carries it has seen the proof."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    host: str
    user: str
    groups: list[str]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What the other node says."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def carried(call: Call, node: int) -> Response | None:
    """Return another node's answer; None if it cannot be asked, or has sent the request here."""
    request, clustering = call.request, call.broker.clustering
    if clustering is None or hasattr(request.state, "is_carried"):
        return None
    if not clustering.links.is_connected(node):
        return None
    wanted = Carried(
        request.method,
        request.scope["path"],
        request.scope["query_string"],
        list(request.scope["headers"]),
        await call.octets(),
        call.host,
        call.principal.name,
        sorted(call.principal.groups),
    )
    try:
        body = [msgspec.msgpack.encode(wanted)]
        said = await clustering.links.ask(node, Kind.FORWARD, body, TIMEOUT_S)
    except PeerRefused:
        return None
    except LinkDown as fault:
        raise UnknownOutcome(f"node {node} does not answer: {fault}") from None
    answer = msgspec.msgpack.decode(said, type=Answer)
    response = Response(answer.body, answer.status)
    response.raw_headers = answer.headers
    return response


class Deputy:
    """Answers requests whose clients have asked other nodes."""

    def __init__(self, site: Starlette) -> None:
        self._site = site

    async def __call__(self, _: Caller, body: memoryview) -> Body:
        """Answer a request as if it had come here."""
        try:
            wanted = msgspec.msgpack.decode(body, type=Carried)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"no request: {error}") from None
        status = int(HTTPStatus.OK)
        headers: list[tuple[bytes, bytes]] = []
        pieces: list[bytes] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": wanted.body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                pieces.append(message.get("body", b""))

        scope = self._scope(wanted)
        try:
            await self._site.router(scope, receive, send)
        except ChordMQError as error:
            await refuse(Request(scope), error)(scope, receive, send)
        except HTTPException as error:
            await refuse_by_status(Request(scope), error)(scope, receive, send)
        answer = Answer(status, [(bytes(a), bytes(b)) for a, b in headers], b"".join(pieces))
        return [msgspec.msgpack.encode(answer)]

    def _scope(self, wanted: Carried) -> dict[str, object]:
        return {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": wanted.method,
            "path": wanted.path,
            "raw_path": wanted.path.encode(),
            "root_path": "",
            "query_string": wanted.query,
            "headers": wanted.headers,
            "client": (wanted.host, 0),
            "server": None,
            "app": self._site,
            "state": {
                "principal": Principal(wanted.user, frozenset(wanted.groups)),
                "authenticator": None,
                "is_carried": True,
            },
        }

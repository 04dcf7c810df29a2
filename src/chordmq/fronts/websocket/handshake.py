"""Whether a WebSocket client may come in, and who it is: before its first message, if it can say.

A browser cannot set headers on a WebSocket, so the token may also stand in the query or come as
the first message. Pages of other sites are refused unless the operator names them: any page that a
user looks at could otherwise talk to a node on the user's own machine.
"""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import NegotiationError
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.errors import AuthenticationFailed
from chordmq.fronts.websocket.front import WebSocketFront

PATH = "/ws"
MECHANISM = "WEBSOCKET"
BEARER = "bearer"
EVERYBODY = "*"
NAME_LENGTH_MAX = 200


class Turned(Exception):
    """The client is turned away with an HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check_request(front: WebSocketFront, request: Request) -> None:
    """Turn away who asks for something else, or comes from a page of another site."""
    if urlsplit(request.path).path != PATH:
        raise Turned(HTTPStatus.NOT_FOUND, f"WebSockets are at {PATH}")
    check_origin(front, request)


def check_origin(front: WebSocketFront, request: Request) -> None:
    """Turn away who comes from a page of another site."""
    host = request.headers.get("Host", "")
    if not front.knows_name(host):
        raise Turned(HTTPStatus.MISDIRECTED_REQUEST, "ask for this node by its address")
    origin = request.headers.get("Origin")
    if origin is not None and not _is_known(front.settings.origins, origin, host):
        raise Turned(HTTPStatus.FORBIDDEN, f"{origin} is not in websocket.origins")


def _is_known(origins: str, origin: str, host: str) -> bool:
    if urlsplit(origin).netloc == host:
        return True
    known = [one.strip() for one in origins.split(",")]
    return EVERYBODY in known or origin in known


def asked(request: Request, name: str) -> str:
    """Return a parameter of the query, or nothing."""
    return parse_qs(urlsplit(request.path).query).get(name, [""])[0][:8192]


async def log_in(
    front: WebSocketFront, request: Request, host: str, certified: Principal
) -> Login | None:
    """Return who the client is; None if it has to say so in its first message."""
    authenticator = front.authenticator()
    if authenticator is None:
        if front.is_closed:
            raise AuthenticationFailed("the node is starting and knows nobody yet")
        return Login(ANONYMOUS)
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    token = value.strip() if scheme.lower() == BEARER else asked(request, "token")
    if token:
        return await authenticator.check_token(token, host, MECHANISM)
    if certified is ANONYMOUS and authenticator.is_required:
        return None
    return Login(certified)


def select(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Choose the client's first sub-protocol that is known; who names none gets JSON."""
    known = protocol.available_subprotocols or ()
    for name in offered:
        if name in known:
            return name
    if offered:
        raise NegotiationError(f"the sub-protocols here are {', '.join(known)}")
    return None

"""Lets nobody past who has not proved who they are: HTTP Basic, bearer tokens, certificates."""

import base64
import binascii
import ipaddress
from collections.abc import Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chordmq.broker.audit.auditor import Auditor
from chordmq.broker.audit.chain import OK
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.broker.security.principal import Login as Proved
from chordmq.dataclass import dataclass
from chordmq.errors import AuthenticationFailed, ClusterAccessDenied

PUBLIC = frozenset({"/", "/healthz", "/ready"})
"""The console, which asks for a login itself, and what machines ask that only want to know whether
the node is there."""
PUBLIC_FOLDER = "/assets/"
MANAGEMENT = "/api/"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
CHALLENGE = {"WWW-Authenticate": 'Basic realm="chordmq", charset="UTF-8", Bearer'}
BASIC, BEARER = "basic", "bearer"


@dataclass(frozen=True, slots=True)
class Door:
    """Who checks credentials; until the node is ready nobody does, and nobody is let in."""

    is_closed: bool = False
    """Whether everybody has to log in."""
    authenticator: Callable[[], Authenticator | None] = lambda: None
    audit: Callable[[], Auditor | None] = lambda: None
    """Who is told of changes and refusals."""
    checks_names: bool = False
    """Whether the node must be asked for by address or a local name.

    While everything is open on loopback, a page of another site could have its own name lead here
    and a browser let it ask; it cannot have the browser name an address instead.
    """


class Login:
    """Puts the principal into the state of each request, or answers 401."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http" or is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if (
            self._door.checks_names
            and not self._door.is_closed
            and not is_local_name(request.headers.get("host", ""))
        ):
            facts = {"error": "MisdirectedRequest", "message": "ask for this node by its address"}
            await JSONResponse(facts, HTTPStatus.MISDIRECTED_REQUEST)(scope, receive, send)
            return
        try:
            request.state.login = await self._login(request)
            request.state.principal = request.state.login.principal
        except AuthenticationFailed as error:
            facts = {"error": "AuthenticationFailed", "message": str(error)}
            refusal = JSONResponse(facts, HTTPStatus.UNAUTHORIZED, CHALLENGE)
            await refusal(scope, receive, send)
            return
        request.state.authenticator = self._door.authenticator()
        await self._app(scope, receive, self._told(request, send))

    def _told(self, request: Request, send: Send) -> Send:
        """Have the audit trail told how a change ends, and of every refusal."""
        auditor = self._door.audit()
        if auditor is None or not auditor.is_on:
            return send

        async def telling(message: Message) -> None:
            status = message.get("status", 0)
            is_change = request.method not in READS and not hasattr(request.state, "is_traffic")
            if status == HTTPStatus.FORBIDDEN or (status and is_change):
                auditor.record(
                    who=f"User:{request.state.principal.name}",
                    host=request.client.host if request.client else "",
                    act=f"http.{request.method.lower()}",
                    obj=request.url.path,
                    result=OK if status < HTTPStatus.BAD_REQUEST else f"status {status}",
                )
            await send(message)

        return telling

    async def _login(self, request: Request) -> Proved:
        authenticator = self._door.authenticator()
        if authenticator is None:
            if self._door.is_closed:
                raise AuthenticationFailed("the node is starting and knows nobody yet")
            return Proved(ANONYMOUS)
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        address = request.client.host if request.client else ""
        if scheme.lower() == BASIC:
            if not authenticator.is_on and request.url.path.startswith(MANAGEMENT):
                return Proved(ANONYMOUS)  # RabbitMQ's tools always send a name
            name, password = _name_and_password(value)
            return await authenticator.check_password(name, password, address, "HTTP-BASIC")
        if scheme.lower() == BEARER:
            return await authenticator.check_token(value.strip(), address, "HTTP-BEARER")
        certified: Principal = getattr(request.state, "certified", ANONYMOUS)
        if certified is ANONYMOUS and authenticator.is_required:
            raise AuthenticationFailed("log in with a password, a token or a certificate")
        return Proved(certified)


def is_public(path: str) -> bool:
    """Say whether everybody may ask for this."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDER)


def is_local_name(host: str) -> bool:
    """Say whether a Host header has an address, or a name that no public name server can give."""
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host.rstrip(".") or host.endswith(".localhost")
    return True


def authenticator_of(request: Request) -> Authenticator:
    """Return who checks credentials, or say that the node is not that far yet."""
    found: Authenticator | None = request.state.authenticator
    if found is None:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the node is starting")
    return found


def check_super(request: Request, *, or_name: str | None = None) -> None:
    """Raise ClusterAccessDenied unless an administrator, or the user itself, asks."""
    principal: Principal = request.state.principal
    if principal is not ANONYMOUS and principal.name == or_name:
        return
    if not authenticator_of(request).is_super(principal) and not _may_alter(request, principal):
        raise ClusterAccessDenied("only administrators may do this")


def _may_alter(request: Request, principal: Principal) -> bool:
    """Return whether a rule or a role lets the principal alter the cluster."""
    permissions = request.app.state.shared.broker().permissions
    host = request.client.host if request.client else ""
    allowed: bool = permissions.is_enforced and permissions.acl.allows(
        principal, host, Operation.ALTER, Kind.CLUSTER, CLUSTER_NAME
    )
    return allowed


def _name_and_password(value: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    name, colon, password = text.partition(":")
    if not colon:
        raise AuthenticationFailed("the Authorization header cannot be read")
    return name, password

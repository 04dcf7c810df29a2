"""What a handler knows about the HTTP request it answers, and what all requests share."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import Principal
from chordmq.broker.security.quotas import Limit
from chordmq.cluster.link import Caller, Handler
from chordmq.codecs.peer.frames import Body
from chordmq.dataclass import dataclass
from chordmq.errors import AuthenticationFailed, InvalidRequest, ShuttingDown
from chordmq.fronts.admin.settings import HttpSettings
from chordmq.iot.demo import Demo
from chordmq.iot.service import Devices

if TYPE_CHECKING:
    from chordmq.topology.pipes import Pipes

JSON = "application/json"
OCTETS = "application/octet-stream"
CLIENT_HEADER = "chordmq-client"
"""What a client calls itself, for quotas of client ids."""

T = TypeVar("T")


def _no_broker() -> Broker:
    raise ShuttingDown("the node serves no clients")


def _no_devices() -> Devices:
    raise ShuttingDown("the node serves no clients")


async def _no_deputy(caller: Caller, body: memoryview) -> Body:
    raise ShuttingDown("the node serves no clients")


@dataclass(slots=True, kw_only=True)
class Shared:
    """What all requests of the front share."""

    broker: Callable[[], Broker] = _no_broker
    """Returns the broker, or raises ShuttingDown while there is none to serve clients."""
    devices: Callable[[], Devices] = _no_devices
    """Returns the service that looks after devices; asked only when there is a broker."""
    settings: HttpSettings = field(default_factory=HttpSettings)
    appends: Appends = field(default_factory=Appends)
    streams: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Open event streams by user and address."""
    pipes: "Pipes | None" = None
    """What the node copies from others, if it has a place in a tree."""
    deputy: Handler = _no_deputy
    """Answers requests that other nodes carry here."""
    demo: Demo = field(default_factory=Demo)
    held: int = 0
    """Bytes of bodies and answers that requests under way hold."""


class Call:
    """One request of one client."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.shared: Shared = request.app.state.shared
        self.broker: Broker = self.shared.broker()
        self.host = request.client.host if request.client else ""
        self.principal: Principal = request.state.principal
        client = request.headers.get(CLIENT_HEADER, "")
        quotas, clock = self.broker.permissions.quotas, self.broker.clock
        self.meter = Meter(quotas, clock, self.principal.name, client)
        self.is_delivery = False
        """Whether the answer brings records, whose bytes count as received."""
        self._held = 0
        self._octets: bytes | None = None
        self._farewell = ""

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def check(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        permissions = self.broker.permissions
        if permissions.is_enforced:
            permissions.acl.check(self.principal, self.host, operation, kind, name)

    def allows(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do this, where that only decides what it is shown."""
        permissions = self.broker.permissions
        return not permissions.is_enforced or permissions.acl.allows(
            self.principal, self.host, operation, kind, name
        )

    @contextmanager
    def living_by_login(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have `wake` called if the login is taken back meanwhile; `check_login` raises then."""

        def end(reason: str) -> None:
            self._farewell = reason
            wake()

        authenticator: Authenticator | None = self.request.state.authenticator
        if authenticator is None:
            yield
            return
        authenticator.logins.hold(self, self.request.state.login, end)
        try:
            yield
        finally:
            authenticator.logins.release(self)

    def check_login(self) -> None:
        """Raise AuthenticationFailed if the login was taken back while the client waited."""
        if self._farewell:
            raise AuthenticationFailed(self._farewell)

    def query(self, kind: type[T]) -> T:
        """Return what stands after the question mark."""
        pairs = self.request.query_params.multi_items()
        values = dict(pairs)
        if len(values) < len(pairs):
            raise InvalidRequest("a parameter stands in the query twice")
        try:
            query = msgspec.convert(values, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"the query: {error}") from None
        for name, value in values.items():
            # A type that does not mind unknown names has no such field; of the text `null`
            # msgspec makes None.
            if getattr(query, name, None) is None:
                raise InvalidRequest(f"the query: `{name}` cannot be {value!r}, or is unknown")
        return query

    @property
    def media(self) -> str:
        """Return what the client says that it sends, without parameters."""
        kind = self.request.headers.get("content-type", "").partition(";")[0]
        return kind.strip().lower()

    async def body(self, kind: type[T]) -> T:
        """Return what the JSON in the body means."""
        if self.media != JSON:
            # A page of another site can make a browser post plain forms in the user's name.
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {JSON}")
        return read_json(await self.octets(), kind)

    async def octets(self) -> bytes:
        """Return the body as it is."""
        if self._octets is not None:
            return self._octets
        limit = self.shared.settings.body_size_max
        length = self.request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > limit:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {limit} bytes")
        body = bytearray()
        async for chunk in self.request.stream():
            self.hold(len(chunk))
            body += chunk
            if len(body) > limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {limit} bytes")
        self._octets = bytes(body)
        return self._octets

    def delivers(self) -> None:
        """Count the answer as records received; refuse a client that has had too many lately."""
        self.is_delivery = True
        self.meter.refuse_debtor(Limit.FETCH)

    def hold(self, size: int) -> None:
        """Count bytes that the request needs until it is answered; refuse if all need too many."""
        if self.shared.held + size > self.shared.settings.memory_max and self.shared.held:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once")
        self.shared.held += size
        self._held += size

    def release(self) -> None:
        """Hold nothing any more."""
        self.shared.held -= self._held
        self._held = 0


def read_json(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return what JSON means, or raise InvalidRequest that says where it is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body: {error}") from None

"""Who a client of the provider's protocol is, and what it may do."""

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import ANONYMOUS
from chordmq.errors import AuthenticationFailed
from chordmq.fronts.provider.front import ProviderFront
from chordmq.fronts.stream import Stream

MECHANISM = "PROVIDER"


class Access:
    """One client's login, asked before each thing that it wants to do, and charged for it."""

    def __init__(self, front: ProviderFront, stream: Stream) -> None:
        self._front = front
        self._stream = stream
        self._host = stream.host
        self.principal = certified = stream.certified()
        self.expires_ms: int | None = None
        quotas = front.broker.permissions.quotas
        self.meter = Meter(quotas, front.listener.clock, certified.name)
        authenticator = front.authenticator
        is_known = certified is not ANONYMOUS
        self.is_open = is_known or authenticator is None or not authenticator.is_required
        """Whether the client need not log in (any more)."""

    async def log_in(self, token: str) -> None:
        """Take the client's word with a token, or raise AuthenticationFailed."""
        authenticator = self._front.authenticator
        if token and authenticator is not None:
            login = await authenticator.check_token(token, self._host, MECHANISM)
            self.principal, self.expires_ms = login.principal, login.expires_ms
            self.meter.user = login.principal.name
            self.is_open = True
            self._stream.live_by(login, authenticator.logins)
        self.check_open()

    def check_open(self) -> None:
        """Raise AuthenticationFailed while it is not known who the client is."""
        if not self.is_open:
            raise AuthenticationFailed(
                "log in first, with a token in SUBSCRIBE or in a first HEARTBEAT"
            )

    def check(self, operation: Operation, kind: Kind, name: str) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        permissions = self._front.broker.permissions
        if permissions.is_enforced:
            permissions.acl.check(self.principal, self._host, operation, kind, name)

    def allows(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Return whether the client may do this."""
        permissions = self._front.broker.permissions
        return not permissions.is_enforced or permissions.acl.allows(
            self.principal, self._host, operation, kind, name
        )

    def audit(self, act: str, place: str) -> None:
        """Write some of what the client does to the audit trail, as often as was set."""
        audit = self._front.broker.audit
        if audit.sample and audit.is_sampled():
            who = f"User:{self.principal.name}"
            audit.record(who=who, host=self._host, act=act, obj=place)

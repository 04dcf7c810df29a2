"""What all clients of the plain length-prefixed protocol share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.permissions import Permissions
from chordmq.broker.security.principal import Principal
from chordmq.codecs.framed.messages import Hello
from chordmq.dataclass import dataclass
from chordmq.errors import PolicyViolation
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.listener import Listener
from chordmq.fronts.stream import Stream

GROUP_PREFIX = "framed."


@dataclass(frozen=True, slots=True)
class Registration:
    """A consumer that is connected."""

    host: str
    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose connection it is: asked before each thing that it does, and charged for it."""

    principal: Principal
    host: str
    permissions: Permissions
    meter: Meter

    def check(self, operation: Operation, kind: Kind, name: str) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        if self.permissions.is_enforced:
            self.permissions.acl.check(self.principal, self.host, operation, kind, name)


@dataclass(slots=True, eq=False)
class FramedFront:
    """The broker behind the listener, and the consumers in front of it."""

    broker: Broker
    listener: Listener
    settings: FramedSettings
    authenticator: Authenticator | None = None
    appends: Appends = field(default_factory=Appends)
    consumers: dict[Stream, Registration] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0
    dropped: int = 0

    def visitor(self, principal: Principal, host: str, name: str) -> Visitor:
        """Return who a client is, for quotas under the name that it gives itself."""
        permissions = self.broker.permissions
        meter = Meter(permissions.quotas, self.listener.clock, principal.name, name)
        return Visitor(principal, host, permissions, meter)

    def group_of(self, hello: Hello, topic: str) -> str:
        """Return where the consumer's place is kept: its own, its queue's, or nowhere."""
        mode = hello.mode or self.settings.delivery_mode
        if mode == "queue":
            return GROUP_PREFIX + (hello.name or topic)
        return GROUP_PREFIX + hello.name if hello.name else ""

    @contextmanager
    def registered(self, stream: Stream, topic: str, group: str) -> Iterator[None]:
        """Count a consumer while it is connected, or refuse one too many."""
        if len(self.consumers) >= self.settings.consumers_max:
            raise PolicyViolation(
                f"{len(self.consumers)} consumers are connected, which is framed.consumers_max "
                "(MAX_CONSUMERS)"
            )
        self.consumers[stream] = Registration(stream.host, topic, group)
        try:
            yield
        finally:
            del self.consumers[stream]

"""What a handler knows about the request it answers, besides the message itself."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.broker.security.quotas import Buckets
from chordmq.broker.setting import INT_MAX
from chordmq.dataclass import dataclass
from chordmq.errors import MutationQuotaExceeded
from chordmq.fronts.kafka.fetch_session import FetchSession
from chordmq.fronts.kafka.gathering import Gathering
from chordmq.fronts.kafka.sasl_session import SaslSession
from chordmq.fronts.kafka.share_session import ShareSessions
from chordmq.fronts.kafka.usage import Usage
from chordmq.fronts.listener import Listener

if TYPE_CHECKING:
    from chordmq.fronts.kafka.fetch_repeats import FetchLikeness
    from chordmq.fronts.kafka.repeats import Likeness


@dataclass(slots=True)
class KafkaFront:
    """What all Kafka connections of one listener share."""

    broker: Broker
    listener: Listener
    authenticator: Authenticator | None = None
    """Who checks credentials; None where nobody does."""
    share_sessions: ShareSessions = field(default_factory=ShareSessions)
    usage: defaultdict[int, Usage] = field(default_factory=lambda: defaultdict(Usage))
    bytes_in: int = 0
    bytes_out: int = 0
    answer: Callable[..., Any] | None = None
    """What answers requests in place of `dispatch.answer`, where the node traces them."""
    gathering: Gathering | None = field(init=False)
    """Where small Produce requests wait for the end of the turn.

    None where the node traces: a span is about one request, so each is served by itself.
    """

    def __post_init__(self) -> None:
        self.gathering = None
        if self.answer is None:
            self.gathering = Gathering(self.usage, self.listener.clock)


@dataclass(slots=True)
class Client:
    """What one connection remembers between its requests."""

    host: str
    principal: Principal = ANONYMOUS
    login: Login | None = None
    """What the client has logged in with last, if it has."""
    sasl: SaslSession | None = None
    """How far the login has come; None where nobody can log in."""
    fetch_session: FetchSession | None = None
    sent_elsewhere: dict[Partition, float] = field(default_factory=dict)
    """When the client was told to read a popular partition from another copy."""
    enlisting: int = 0
    """Requests under way that wait for a transaction to know of their partitions."""
    produced_to: Partition | None = None
    """Where the last Produce request went, if it was for one partition."""
    fetched_from: Partition | None = None
    """Where the last Fetch request read, if it was for one partition."""
    like: "Likeness | FetchLikeness | None" = None
    """The last request of a kind that comes often, for those that follow it and are like it."""

    @property
    def name(self) -> str:
        """Return who the client is, as ACLs write it."""
        return f"User:{self.principal.name}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request of one client."""

    front: KafkaFront
    client: Client
    version: int
    client_id: str
    handed_out: Callable[[str, Sequence[memoryview]], None] | None = None
    """Sees the topic and the batches of an answer, where the node traces them."""

    @property
    def broker(self) -> Broker:
        """Return the broker that serves the request."""
        return self.front.broker

    @property
    def client_host(self) -> str:
        """Return the address that the client connects from."""
        return self.client.host

    @property
    def advertised(self) -> tuple[str, int]:
        """Return the host and port under which clients reach this node."""
        return self.front.listener.advertised

    def check(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        permissions = self.front.broker.permissions
        if permissions.is_enforced:
            client = self.client
            permissions.acl.check(client.principal, client.host, operation, kind, name)

    def audit(self, act: str, obj: str) -> None:
        """Take note of a change that the client has made."""
        client = self.client
        self.front.broker.audit.record(who=client.name, host=client.host, act=act, obj=obj)

    def allows(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do this, where that only decides what it is shown."""
        permissions = self.front.broker.permissions
        client = self.client
        return not permissions.is_enforced or permissions.acl.allows(
            client.principal, client.host, operation, kind, name
        )

    def allows_any(self, operation: Operation, kind: Kind) -> bool:
        """Return whether the client may do this with some resource of the kind."""
        permissions = self.front.broker.permissions
        client = self.client
        return not permissions.is_enforced or permissions.acl.allows_any(
            client.principal, client.host, operation, kind
        )

    def check_mutations(self, partitions: int) -> None:
        """Count partitions made or removed; raise MutationQuotaExceeded if there were too many."""
        bucket = self._buckets().mutation
        if bucket is not None:
            now_s = self.front.listener.clock.monotonic_s()
            if bucket.charge(0, now_s) > 0:
                raise MutationQuotaExceeded("too many partitions were made or removed; wait a bit")
            bucket.charge(partitions, now_s)

    @property
    def fetch_size_max(self) -> int:
        """Return the bytes above which one answer would exceed the client's quota at once."""
        bucket = self._buckets().fetch
        return INT_MAX if bucket is None else max(1, int(bucket.rate))

    def _buckets(self) -> Buckets:
        quotas = self.front.broker.permissions.quotas
        now_s = self.front.listener.clock.monotonic_s() if quotas else 0.0
        return quotas.buckets(self.client.principal.name, self.client_id, now_s)

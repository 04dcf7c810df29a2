"""What all clients of a front share that they call procedures of."""

from collections.abc import Iterator
from dataclasses import field

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.dataclass import dataclass
from chordmq.errors import AuthenticationFailed, ShuttingDown
from chordmq.fronts.listener import Listener
from chordmq.fronts.opening import Opening
from chordmq.fronts.rpc.session import STOPPING, Session
from chordmq.fronts.rpc.settings import RpcSettings
from chordmq.metrics import Metric, counter, gauge


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How a client says who it is: by a token, by name and password, or not at all."""

    token: str = ""
    user: str = ""
    password: str = ""


@dataclass(slots=True, eq=False, kw_only=True)
class RpcFront:
    """The broker behind the listener, and the clients in front of it."""

    name: str
    broker: Broker
    listener: Listener
    settings: RpcSettings
    names: Names
    authenticator: Authenticator | None = None
    appends: Appends = field(default_factory=Appends)
    sessions: dict[Session, None] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0

    async def log_in(self, credentials: Credentials, host: str, certified: Principal) -> Login:
        """Return who the client is; raise AuthenticationFailed if it has to say and does not."""
        authenticator, mechanism = self.authenticator, self.name.upper()
        if authenticator is None:
            return Login(ANONYMOUS)
        if credentials.token:
            return await authenticator.check_token(credentials.token, host, mechanism)
        if credentials.user:
            user, password = credentials.user, credentials.password
            return await authenticator.check_password(user, password, host, mechanism)
        if certified is ANONYMOUS and authenticator.is_required:
            raise AuthenticationFailed("log in with a token, a password or a certificate")
        return Login(certified)

    def enter(self, session: Session, login: Login) -> None:
        """Take note of a client that is let in, for as long as its login is good."""
        self.sessions[session] = None
        self.broker.presence.enter(session)
        if self.authenticator is not None:
            self.authenticator.logins.hold(session, login, session.shut_out)
        if login.expires_ms is not None:
            session.expire_at(login.expires_ms)

    def leave(self, session: Session) -> None:
        """Take back what a client held that has gone."""
        session.close()
        if session in self.sessions:
            del self.sessions[session]
            self.broker.presence.leave(session)
            if self.authenticator is not None:
                self.authenticator.logins.release(session)

    def look_again(self) -> None:
        """Have all subscriptions follow a change of topics or permissions."""
        for session in list(self.sessions):
            session.look_again()

    def end(self) -> None:
        """End all subscriptions, for the node stops."""
        for session in list(self.sessions):
            session.end(ShuttingDown(STOPPING))

    def measures(self) -> Iterator[Metric]:
        """Yield what came, what went, and who is there."""
        prefix = f"chordmq_{self.name}"
        yield counter(f"{prefix}_messages_in", "Messages taken.", self.messages_in)
        yield counter(f"{prefix}_messages_out", "Messages delivered.", self.messages_out)
        yield gauge(f"{prefix}_clients", "Clients logged in.", len(self.sessions))
        subscriptions = sum(len(session.subscriptions) for session in self.sessions)
        yield gauge(f"{prefix}_subscriptions", "Subscriptions open.", subscriptions)


def opened(name: str, opening: Opening) -> RpcFront:
    """Return a front that follows what changes in the node."""
    settings = opening.listener.settings
    assert isinstance(settings, RpcSettings)
    front = RpcFront(
        name=name,
        broker=opening.broker,
        listener=opening.listener,
        settings=settings,
        names=opening.names,
        authenticator=opening.authenticator,
    )
    opening.metrics.add(front.measures)
    opening.broker.topics.watchers.append(front.look_again)
    opening.broker.permissions.listeners.append(front.look_again)
    return front

"""What all clients of the provider's protocol share."""

from dataclasses import field
from typing import Protocol

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.security.auth import Authenticator
from chordmq.dataclass import dataclass
from chordmq.fronts.listener import Listener
from chordmq.fronts.provider.settings import ProviderSettings


class Session(Protocol):
    """What the front needs of a client."""

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        ...


@dataclass(slots=True, eq=False)
class ProviderFront:
    """The broker behind the listener, and the numbers of the clients in front of it."""

    broker: Broker
    listener: Listener
    settings: ProviderSettings
    authenticator: Authenticator | None = None
    appends: Appends = field(default_factory=Appends)
    sessions: dict[Session, None] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0
    redelivered: int = 0

    def look_again(self) -> None:
        """Have all clients follow a change of topics or permissions."""
        for session in list(self.sessions):
            session.look_again()

"""What a front is given to begin with, and what it gives back: a protocol for each client."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.broker.security.auth import Authenticator
from chordmq.dataclass import dataclass
from chordmq.fronts.listener import Listener
from chordmq.metrics import Metrics

Connect = Callable[[], asyncio.BaseProtocol]
"""Returns what drives the next client."""
Open = Callable[["Opening"], Connect | None]
"""Opens a front; None if it is not to be there."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts of the node that a front with a listener of its own needs."""

    broker: Broker
    listener: Listener
    authenticator: Authenticator | None
    metrics: Metrics
    names: Names
    closing: AsyncExitStack
    """Takes what is to be closed after the front's last client has gone."""

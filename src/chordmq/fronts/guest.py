"""A client that is let in and pushed to: who it is, what it may do, what it uses, when it goes."""

import asyncio
from typing import TypeVar

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import ANONYMOUS, Login
from chordmq.fronts.listener import Listener
from chordmq.fronts.wire import Reader, Wire

EXPIRED = "the token has expired"

E = TypeVar("E")


class Guest(Wire[E]):
    """One client's transport, and what stands behind its name."""

    def __init__(
        self,
        listener: Listener,
        reader: Reader[E],
        broker: Broker,
        authenticator: Authenticator | None,
    ) -> None:
        super().__init__(listener, reader)
        self.principal = ANONYMOUS
        self.meter = Meter(broker.permissions.quotas, listener.clock)
        self.connected_ms = listener.clock.now_ms()
        self._broker = broker
        self._authenticator = authenticator
        self._expiry: asyncio.TimerHandle | None = None
        """When the token that has let the client in expires."""

    def hold(self, login: Login) -> None:
        """Have the connection end with what has let it in."""
        self.principal = login.principal
        if self._authenticator is not None:
            self._authenticator.logins.hold(self, login, self.force)
        if self._expiry is not None:
            self._expiry.cancel()
        if login.expires_ms is not None:
            left_s = (login.expires_ms - self._listener.clock.now_ms()) / 1000
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(max(left_s, 0.0), self.force, EXPIRED)

    def release(self) -> None:
        """Take note that the client goes."""
        if self._authenticator is not None:
            self._authenticator.logins.release(self)
        if self._expiry is not None:
            self._expiry.cancel()
        if self._heartbeat is not None:
            self._heartbeat.cancel()

    def check(self, operation: Operation, topic: str, kind: Kind = Kind.TOPIC) -> None:
        """Raise TopicAccessDenied unless the client may do this with the topic."""
        permissions = self._broker.permissions
        if permissions.is_enforced:
            permissions.acl.check(self.principal, self.host, operation, kind, topic)

    def check_publish(self, topic: str) -> None:
        """Raise TopicAccessDenied unless the client may publish to the topic."""
        self.check(Operation.WRITE, topic)

    def audit(self, partition: Partition, offset: int, count: int) -> None:
        """Note some of what was published in the audit trail, as many as it asks for."""
        audit = self._broker.audit
        if audit.sample:
            who = f"User:{self.principal.name}"
            for number in range(offset, offset + count):
                if audit.is_sampled():
                    place = f"{partition.topic}-{partition.index} offset {number}"
                    audit.record(who=who, host=self.host, act="publish", obj=place)

    def _charge(self, sent: int) -> None:
        meter = self.meter
        if meter.is_on:
            meter.fetched += sent
            wait_s = meter.wait_s()
            if wait_s > 0 and not self.is_throttled:
                self.is_throttled = True
                asyncio.get_running_loop().call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self.is_throttled = False
        self._arrived.set()
        if not self._is_closed:
            self._thirst()

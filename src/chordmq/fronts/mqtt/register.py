"""The sessions that this node looks after: begun, taken over, left, ended, and handed over."""

import asyncio
import uuid
from typing import TYPE_CHECKING

from chordmq.broker.alarm import Alarm
from chordmq.broker.security.principal import Principal
from chordmq.broker.sessions import Progress, StoredSession
from chordmq.codecs.mqtt.packets import Connect
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt import publications, subscribing
from chordmq.fronts.mqtt.expiry import expiry_of
from chordmq.fronts.mqtt.session import Session
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import MqttFront

log = get_logger(__name__)

ID_ATTEMPTS = 200
"""Names that are tried for a client without one, until this node looks after its session."""


class Register:
    """Sessions by client; a session is where its partition of `__sessions` is led."""

    def __init__(self, front: "MqttFront") -> None:
        self._front = front
        self._stored = front.broker.sessions
        self.sessions: dict[str, Session] = {}
        self.dirty: dict[Session, None] = {}
        """Sessions whose progress is to be stored."""
        self._alarm = Alarm(front.broker.clock, self._ring)

    async def open(self) -> None:
        """Take what the log holds, now and whenever this node begins to lead more of it."""
        await self._stored.follow(self)

    def stop(self) -> None:
        """Let no more sessions and wills come to their ends."""
        self._alarm.cancel()

    async def close(self) -> None:
        """Store what sessions have reached."""
        written = []
        for session in self.sessions.values():
            if session.is_durable:
                try:
                    written.append(self._stored.store(session.progress()))
                except ChordMQError:
                    break
        await asyncio.gather(*written, return_exceptions=True)

    def store_dirty(self) -> None:
        """Have the progress stored of all sessions that went on."""
        dirty, self.dirty = self.dirty, {}
        for session in dirty:
            if not session.is_ended:
                session.when_stored(lambda: None)

    # What the log brings.

    async def restore(self, asked: StoredSession, progress: Progress) -> None:
        """Look after a session that the log has kept."""
        now_ms = self._front.now_ms()
        session = Session(self._front, asked.client, Principal(asked.user), "")
        self.sessions[asked.client] = session
        await session.restore(asked, progress)
        left_ms = asked.left_ms
        if left_ms is None:  # its node went down under it
            session.left_ms = left_ms = now_ms
            if session.will is not None:
                self._alarm_in(f"w{asked.client}", session.will.properties.will_delay_s or 0)
        self._alarm_in(f"e{asked.client}", asked.expiry_s - (now_ms - left_ms) / 1000)

    def give_up(self, partition: int) -> None:
        """Forget the sessions in a part of the log that another node leads now."""
        for session in list(self.sessions.values()):
            if self._stored.partition_of(session.client_id) == partition:
                connection, session.connection = session.connection, None
                self._forget(session)
                if connection is not None:
                    connection.end(Reason.USE_ANOTHER_SERVER, "another node has the session now")

    # When sessions and wills are due.

    def _alarm_in(self, name: str, delay_s: float) -> None:
        """Ring for a session's end (`e`) or will (`w`) after some time."""
        self._alarm.set(name, self._alarm.now_ms() + max(int(delay_s * 1000), 0))

    def _ring(self, name: str) -> None:
        session = self.sessions.get(name[1:])
        self._alarm.discard(name)
        if session is None or session.connection is not None:
            return
        self._publish_will(session)
        if name[0] == "e":
            self.end(session)

    def _publish_will(self, session: Session) -> None:
        """Publish what a client has left for this case."""
        will, session.will = session.will, None
        if will is not None:
            self._front.tasks.create_task(publications.publish_will(self._front, session, will))

    # Clients come and go.

    def new_client_id(self) -> str:
        """Return a name for a client without one, whose session this node looks after."""
        ids = (f"auto-{uuid.uuid4().hex}" for _ in range(ID_ATTEMPTS))
        return next(filter(self._stored.is_home, ids), f"auto-{uuid.uuid4().hex}")

    def begin(
        self, connection: "MqttConnection", packet: Connect, client_id: str
    ) -> tuple[Session, bool]:
        """Return a client's session, old or new, and whether it is an old one.

        An older connection of the client is closed; what the client had goes over to this one.
        """
        assert connection.login is not None
        self._stored.check(client_id)
        principal = connection.login.principal
        old = self.sessions.get(client_id)
        if old is not None and old.connection is not None:
            old.connection.taken_over()
            old = self.sessions.get(client_id)
        has_session = old is not None and not packet.clean_start and old.principal == principal
        if old is not None and not has_session:
            self._publish_will(old)  # MQTT-3.1.3.2: it does not outlive its session
            self.end(old)
        session = old if old is not None and has_session else None
        if session is None:
            session = self.sessions[client_id] = Session(self._front, client_id, principal, "")
            session.is_stored = False
        self._alarm.discard(f"e{client_id}")
        self._alarm.discard(f"w{client_id}")
        session.host = connection.host
        session.connection = connection
        session.will = packet.will
        session.left_ms = None
        session.expiry_s = expiry_of(packet, self._front.settings.session_expiry_max_s)
        return session, has_session

    async def begun(self, session: Session) -> None:
        """Store a session that is to outlive its connection; take up its part in groups."""
        dormant, session.dormant = session.dormant, []
        for subscription in dormant:
            await subscribing.join(self._front, subscription)
        await session.settle_arrivals()
        await session.settle_flights()
        if session.is_durable:
            session.is_stored = True
            await self._stored.store(session.stored(), session.progress())
        elif session.is_stored:
            session.is_stored = False
            await self._stored.delete(session.client_id)

    def refused(self, session: Session, connection: "MqttConnection") -> None:
        """Keep a session whose client could not be let in after all."""
        if session.connection is connection:
            session.connection = None
            self._alarm_in(f"e{session.client_id}", session.expiry_s)

    def left(self, session: Session, connection: "MqttConnection") -> None:
        """Keep what a client that has gone may come back for."""
        if session.connection is not connection:
            return
        session.connection = None
        session.outbox.detach()
        for reader in session.shared.values():
            reader.pause()
        session.left_ms = self._front.now_ms()
        if connection.is_leaving_well:
            session.will = None
        delay_s = 0
        if session.will is not None:
            delay_s = min(session.will.properties.will_delay_s or 0, session.expiry_s)
        if not delay_s:
            self._publish_will(session)
        if not session.is_durable:
            self.end(session)
            return
        if delay_s:
            self._alarm_in(f"w{session.client_id}", delay_s)
        self._alarm_in(f"e{session.client_id}", session.expiry_s)
        self._store(session)

    def _store(self, session: Session) -> None:
        session.is_stored = True
        try:
            stored = self._stored.store(session.stored(), session.progress())
        except ChordMQError as error:
            log.error("session not stored", client=session.client_id, error=str(error))
        else:
            stored.add_done_callback(_let_be)

    def end(self, session: Session) -> None:
        """Forget a session for good."""
        self._forget(session)
        if session.is_stored:
            session.is_stored = False
            try:
                self._stored.delete(session.client_id).add_done_callback(_let_be)
            except ChordMQError as error:
                log.error("session not deleted", client=session.client_id, error=str(error))

    def _forget(self, session: Session) -> None:
        session.is_ended = True
        self._alarm.discard(f"e{session.client_id}")
        self._alarm.discard(f"w{session.client_id}")
        session.outbox.close()
        for reader in list(session.shared.values()):
            reader.close()
        session.shared.clear()
        for wanted in list(session.subscriptions):
            session.unsubscribe(wanted)
        self.dirty.pop(session, None)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]


def _let_be(written: asyncio.Future[None]) -> None:
    """Take note of a failure that the log has told of already."""
    if not written.cancelled():
        written.exception()

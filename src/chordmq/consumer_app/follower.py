"""Follows a topic over the provider's protocol into the local data set, whatever breaks."""

import asyncio
import json
import random
import ssl
import struct
from dataclasses import field
from pathlib import Path

from chordmq.client.backoff import Backoff
from chordmq.client.security import Security
from chordmq.codecs.provider.frames import Status, Type, frame
from chordmq.consumer_app.pushes import Frame, split
from chordmq.consumer_app.store import Store
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger

READ_BYTES = 256 * 1024
BEAT_S = 5.0
SILENCE_S = 30.0
BACKOFF_MOST_S = 5.0

_COMMIT = struct.Struct(">iq")
_STATUS = struct.Struct(">H")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """What the environment says."""

    kind: str = "consumer"
    topic: str
    group: str
    port: int = 8091
    host: str = "127.0.0.1"
    broker_host: str = "127.0.0.1"
    broker_port: int = 9081
    broker_token: str = field(default="", repr=False)
    broker_tls_ca: str = ""
    """PEM file with the authorities that the node's certificate is checked against."""
    broker_tls_certificate: str = ""
    """PEM file with the certificate that is shown to the node, and its key unless given apart."""
    broker_tls_key: str = ""
    broker_tls: bool = False
    """TLS with the authorities of the system."""
    token: str = field(default="", repr=False)
    """What whoever asks queries must show; nothing: everybody may ask."""
    tls_certificate: str = ""
    """PEM file; queries are answered over TLS with it."""
    tls_key: str = ""
    directory: Path = Path("consumer-data")

    def context(self) -> ssl.SSLContext | None:
        """Return what TLS to the node needs, or None without."""
        security = Security(
            tls=self.broker_tls,
            tls_ca=self.broker_tls_ca,
            tls_certificate=self.broker_tls_certificate,
            tls_key=self.broker_tls_key,
        )
        return security.context()


class Turned(Exception):
    """The node refuses the subscription, or hangs up; the message says why."""


class Follower:
    """One subscription with an index of its own: this application's place is in its data set."""

    def __init__(self, settings: AppSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._context = settings.context()
        self.is_connected = False
        self.error = ""
        self.messages = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = Backoff(random.Random(), most_s=BACKOFF_MOST_S)  # noqa: S311 (no secret)
        while True:
            try:
                await self._follow(backoff)
            except (OSError, EOFError, TimeoutError, Turned) as error:
                if not self.error:
                    log.warning("the broker is away", why=str(error) or type(error).__name__)
                self.error = str(error) or type(error).__name__
            finally:
                self.is_connected = False
            await asyncio.sleep(backoff.next_s())

    async def _follow(self, backoff: Backoff) -> None:
        settings = self._settings
        async with asyncio.timeout(SILENCE_S):
            reader, writer = await asyncio.open_connection(
                settings.broker_host, settings.broker_port, ssl=self._context
            )
        self._store.on_replaced = writer.close
        try:
            writer.write(self._subscription())
            async with asyncio.TaskGroup() as tasks:
                beating = tasks.create_task(_beat(writer))
                try:
                    await self._take(reader, writer, backoff)
                finally:
                    beating.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            writer.close()

    def _subscription(self) -> bytes:
        settings = self._settings
        wanted = {
            "topic": settings.topic,
            "group": settings.group,
            "from": {str(p): o for p, o in self._store.data.positions().items()} or "earliest",
            "credit": 0,
            "token": settings.broker_token,
            "client": f"{settings.kind}/{settings.group}",
        }
        return frame(Type.SUBSCRIBE, 1, json.dumps(wanted).encode())

    async def _take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, backoff: Backoff
    ) -> None:
        buffer = bytearray()
        generation = self._store.generation
        while True:
            async with asyncio.timeout(SILENCE_S):
                data = await reader.read(READ_BYTES)
            if not data:
                raise EOFError("the broker hung up")
            buffer += data
            frames = split(buffer)
            for one in frames:
                if one.kind in (Type.ACK, Type.DISCONNECT):
                    self._answered(one)
                    backoff.reset()
            pushed = [one for one in frames if one.is_pushed]
            if pushed:
                async with self._store.turn:
                    if self._store.generation != generation:
                        raise Turned("another data set was imported; it goes on from its own place")
                    await asyncio.to_thread(self._store.data.apply, pushed)
                self.messages += len(pushed)
                places = {one.partition: one.offset + 1 for one in pushed}
                commits = b"".join(_COMMIT.pack(*place) for place in places.items())
                writer.write(frame(Type.COMMIT_OFFSET, 2, commits))
                await writer.drain()

    def _answered(self, answer: Frame) -> None:
        (status,) = _STATUS.unpack_from(answer.payload)
        if answer.kind == Type.DISCONNECT or (status != Status.OK and answer.id == 1):
            raise Turned(answer.payload[_STATUS.size :].decode(errors="replace"))
        if answer.id == 1:
            begins = json.loads(answer.payload[_STATUS.size :])["positions"]
            self._store.data.know([int(partition) for partition in begins])
            self.is_connected, self.error = True, ""


async def _beat(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        writer.write(frame(Type.HEARTBEAT, 0))

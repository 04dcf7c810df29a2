"""Follows a topic over the provider's protocol into the local data set, whatever breaks."""

import asyncio
import json
import random
import struct
from dataclasses import dataclass
from pathlib import Path

import structlog

from chordmq.client.backoff import Backoff
from chordmq.codecs.provider.frames import Status, Type, frame
from chordmq.consumer_app.data_set import DataSet
from chordmq.consumer_app.pushes import Frame, split

READ_BYTES = 256 * 1024
BEAT_S = 5.0
SILENCE_S = 30.0
BACKOFF_MOST_S = 5.0

_COMMIT = struct.Struct(">iq")
_STATUS = struct.Struct(">H")

log = structlog.get_logger(__name__)


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
    broker_token: str = ""
    directory: Path = Path("consumer-data")


class Turned(Exception):
    """The node refuses the subscription, or hangs up; the message says why."""


class Follower:
    """One subscription with an index of its own: this application's place is in its data set."""

    def __init__(self, settings: AppSettings, data: DataSet) -> None:
        self._settings = settings
        self._data = data
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
                settings.broker_host, settings.broker_port
            )
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
            "from": {str(p): o for p, o in self._data.positions().items()} or "earliest",
            "credit": 0,
            "token": settings.broker_token,
            "client": f"{settings.kind}/{settings.group}",
        }
        return frame(Type.SUBSCRIBE, 1, json.dumps(wanted).encode())

    async def _take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, backoff: Backoff
    ) -> None:
        buffer = bytearray()
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
                await asyncio.to_thread(self._data.apply, pushed)
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
            self._data.know([int(partition) for partition in begins])
            self.is_connected, self.error = True, ""


async def _beat(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        writer.write(frame(Type.HEARTBEAT, 0))

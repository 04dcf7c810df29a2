"""An example of each kind of extension; `docs/extensions.md` explains it."""

import asyncio
import hmac

from chordmq.broker.broker import Broker
from chordmq.broker.security.principal import Principal
from chordmq.errors import AuthenticationFailed, PolicyViolation
from chordmq.records.record import NewRecord, Record


class Stamp:
    """Writes where a record came in into its headers, and refuses a word."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._site = settings.pop("site").encode()
        self._forbidden = settings.pop("forbidden", "").encode()
        if settings:
            raise ValueError(f"unknown settings: {', '.join(settings)}")

    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        if self._forbidden and any(self._forbidden in (one.value or b"") for one in records):
            raise PolicyViolation(f"{topic} takes no such words")
        return [one._replace(headers=(*one.headers, ("site", self._site))) for one in records]

    def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        return records


class Guests:
    """Lets guests in, all with one password, as members of one group."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._password = settings["password"]

    async def check(self, name: str, password: str) -> Principal | None:
        if not name.startswith("guest-"):
            return None
        if not hmac.compare_digest(password, self._password):
            raise AuthenticationFailed("wrong password of a guest")
        return Principal(name, frozenset({"guests"}))


class Lines:
    """Takes lines over TCP, each as one record of a topic, and answers with its offset."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._port = int(settings["port"])
        self._topic = settings["topic"]
        self._broker: Broker
        self._server: asyncio.Server

    async def open(self, broker: Broker) -> None:
        self._broker = broker
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._broker.topics.ensure(self._topic)
        while line := await reader.readline():
            record = NewRecord(self._broker.clock.now_ms(), None, line.rstrip(b"\n"))
            offset = await self._broker.append_records(self._topic, 0, [record])
            writer.write(b"%d\n" % offset)
        writer.close()

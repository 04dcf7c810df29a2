"""Requests that nobody honest sends, made up, mutated and random, and many clients to send them."""

import asyncio
import random
import ssl
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.codecs.kafka.header import request_head
from chordmq.codecs.kafka.schema import encode
from chordmq.codecs.kafka.wire import Field, fields_at
from chordmq.fronts.kafka.dispatch import APIS
from tests.wire import framed, record_batch

TOPIC, GROUP = "garbage", "garbage-group"
CLIENTS = 48
PATIENCE_S = 0.05
ITEMS_MAX = 3
BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
TEXTS = [TOPIC, GROUP, "", "x" * 300, "../..", "\0", "é" * 64, "retention.ms", "__audit", "*"]
EXTREMES = [-1, -2, 0, 2**31 - 1, -(2**31), 2**24]


class HostileFrames:
    """An endless source of frames, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._requests = [
            (key, version, _request(key)) for key, api in APIS.items() for version in api.versions
        ]

    def __iter__(self) -> Iterator[bytes]:
        while True:
            kind = self.chance.random()
            if kind < 0.4:
                yield self._made_up()
            elif kind < 0.85:
                yield self._mutated(self._made_up())
            elif kind < 0.95:
                key, version, _ = self.chance.choice(self._requests)
                yield bytes(request_head(key, version, 1, "hostile")) + self._bytes(200)
            else:
                yield self._bytes(200)

    def _made_up(self) -> bytes:
        """Return a request that can be decoded, with senseless values in all its fields."""
        key, version, cls = self.chance.choice(self._requests)
        message = self._message(cls, version)
        return bytes(request_head(key, version, 1, "hostile")) + bytes(encode(message, version))

    def _message(self, cls: type[Any], version: int) -> Any:
        values = {
            field.name: self._value(field, version)
            for field in fields_at(cls, version)
            if field.is_present
        }
        return cls(**values)

    def _value(self, field: Field, version: int) -> Any:
        if field.is_nullable and self.chance.random() < 0.1:
            return None
        if field.kind.startswith("[]"):
            count = self.chance.randint(0, ITEMS_MAX)
            return [self._element(field, version) for _ in range(count)]
        return self._element(field, version)

    def _element(self, field: Field, version: int) -> Any:
        if field.struct is not None:
            return self._message(field.struct, version)
        kind, chance = field.kind.removeprefix("[]"), self.chance
        if kind in BITS:
            return self._number(BITS[kind], is_signed=not kind.startswith("u"))
        return {
            "bool": lambda: chance.random() < 0.5,
            "float64": chance.random,
            "uuid": lambda: chance.choice([bytes(16), chance.randbytes(16)]),
            "string": lambda: chance.choice([*TEXTS, f"t{chance.randrange(50)}"]),
            "bytes": lambda: self._bytes(60),
            "records": self._records,
        }[kind]()

    def _number(self, bits: int, *, is_signed: bool) -> int:
        low = -(1 << bits - 1) if is_signed else 0
        high = low + (1 << bits) - 1
        choices = [0, 1, 2, 3, high, low, self.chance.randint(low, high)]
        return self.chance.choice([*choices, -1] if is_signed else choices)

    def _records(self) -> bytes:
        batch = record_batch([b"some value"] * self.chance.randint(1, 3))
        kind = self.chance.random()
        if kind < 0.4:
            return batch
        return self._mutated(batch) if kind < 0.8 else self._bytes(100)

    def _bytes(self, most: int) -> bytes:
        return self.chance.randbytes(self.chance.randint(0, most))

    def _mutated(self, frame: bytes) -> bytes:
        """Change bytes and lengths, put some in, take some out, or cut the end off."""
        chance, changed = self.chance, bytearray(frame)
        for _ in range(chance.randint(1, 4)):
            place = chance.randint(min(4, len(changed)), len(changed))
            match chance.randrange(5):
                case 0 if place < len(changed):
                    changed[place] ^= 1 << chance.randrange(8)
                case 1:
                    changed[place : place + 4] = struct.pack(">i", chance.choice(EXTREMES))
                case 2:
                    changed[place:place] = self._bytes(12)
                case 3:
                    del changed[place : place + chance.randint(1, 8)]
                case _:
                    del changed[max(place, 8) :]
        return bytes(changed)


class Attack:
    """Many clients that send hostile frames one by one, each on a connection that still works."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        context: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._address = address
        self._context = context
        self._login = login

    async def run(self, frames: Iterator[bytes], count: int) -> None:
        """Send so many frames."""
        left = iter(range(count))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CLIENTS):
                tasks.create_task(self._client(frames, left))

    async def _client(self, frames: Iterator[bytes], left: Iterator[int]) -> None:
        link: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for _ in left:
            link = link or await self._connect()
            outcome = await self._send(*link, framed(next(frames)))
            self.outcomes[outcome] += 1
            if outcome != "answered":
                link[1].transport.abort()
                link = None
        if link is not None:
            link[1].transport.abort()

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes
    ) -> str:
        try:
            writer.write(frame)
            async with asyncio.timeout(PATIENCE_S):
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
        except TimeoutError:
            return "unanswered"  # it waits for records or for a group, or wants no answer
        except (asyncio.IncompleteReadError, OSError):
            return "closed"
        return "answered"

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = "localhost" if self._context else None
        reader, writer = await asyncio.open_connection(
            *self._address, ssl=self._context, server_hostname=name
        )
        if self._login is not None:
            await _log_in(reader, writer, *self._login)
        return reader, writer


async def _log_in(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, password: str
) -> None:
    handshake = import_module("chordmq.codecs.kafka.messages.sasl_handshake")
    authenticate = import_module("chordmq.codecs.kafka.messages.sasl_authenticate")
    proof = f"\0{name}\0{password}".encode()
    for request in (
        handshake.SaslHandshakeRequest(mechanism="PLAIN"),
        authenticate.SaslAuthenticateRequest(auth_bytes=proof),
    ):
        head = bytes(request_head(request.api_key, 1, 1, "hostile"))
        writer.write(framed(head + bytes(encode(request, 1))))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = await reader.readexactly(size)
        assert answer[4:6] == b"\0\0", "the login failed"


def _request(key: int) -> type[Any]:
    codec = CODECS[key]
    module = import_module(f"chordmq.codecs.kafka.messages.{codec.module}")
    found: type[Any] = getattr(module, f"{codec.name}Request")
    return found


async def spray(address: tuple[str, int], chance: random.Random, count: int) -> None:
    """Throw bytes at a port that are not even frames: each on a connection of its own."""
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*address)
        with suppress(OSError):
            writer.write(chance.randbytes(chance.randint(1, 400)))
            writer.write_eof()
            await reader.read()
        writer.transport.abort()

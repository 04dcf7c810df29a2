"""One pipe: asks a source for the batches of a partition, again and again, and stores them."""

import asyncio
import random
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import structlog

from chordmq.client.backoff import Backoff
from chordmq.client.breaker import Breaker, BreakerSettings
from chordmq.clock import Clock
from chordmq.errors import ChordMQError
from chordmq.topology.http import Answer, HttpClient, Unreachable
from chordmq.topology.pipe import Pace, Vitals
from chordmq.topology.settings import PipesSettings

ANSWER_S = 15.0
BACKOFF_MOST_S = 5.0
BREAKER = BreakerSettings(failures_max=5, rest_first_s=0.5, rest_most_s=BACKOFF_MOST_S)
FOREIGN_S = 1.0
"""How often to look whether this node leads a partition by now."""
REDIRECTS_MAX = 3

log = structlog.get_logger(__name__)


class Refused(Exception):
    """A source answered, but not with what it was asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Another cluster: what the registry calls it, and the addresses of its nodes."""

    name: str
    url: str
    """One address, or those of several nodes with commas."""

    @property
    def urls(self) -> list[str]:
        """Return the addresses, of which any will do to begin with."""
        return [one.strip().rstrip("/") for one in self.url.split(",") if one.strip()]


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What all pipes of a node share."""

    settings: PipesSettings
    clock: Clock
    pace: Pace
    context: ssl.SSLContext | None = None
    bytes: int = 0
    failures: int = 0
    chance: random.Random = field(default_factory=random.Random)
    breakers: dict[str, Breaker] = field(default_factory=dict)

    def breaker(self, source: Source) -> Breaker:
        """Return what stops calls to a source that does not answer."""
        if source.name not in self.breakers:
            self.breakers[source.name] = Breaker(source.name, self.chance, BREAKER)
        return self.breakers[source.name]


class Caller:
    """Asks whichever node of a cluster answers, and goes where that one points to."""

    def __init__(self, source: Source, token: str, context: ssl.SSLContext | None) -> None:
        self.source = source
        self._token, self._context = token, context
        self._turn = 0
        self._client = HttpClient(source.urls[0], token, context)

    async def ask(
        self, method: str, path: str, *, timeout_s: float, body: bytes = b"", media: str = ""
    ) -> Answer:
        """Return the answer, or raise Unreachable or Refused; the next node is asked then."""
        headers = {"content-type": media} if media else None
        said = ""
        try:
            for _ in range(1 + REDIRECTS_MAX):
                answer = await self._client.ask(
                    method, path, timeout_s=timeout_s, headers=headers, body=body
                )
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return answer
                said = f"{answer.status}: {answer.body.decode(errors='replace')[:200]}"
                if answer.status != HTTPStatus.TEMPORARY_REDIRECT:
                    break
                parts = urlsplit(answer.headers.get("location", ""))
                self._move(f"{parts.scheme}://{parts.netloc}")
        except Unreachable:
            self._elsewhere()
            raise
        self._elsewhere()
        raise Refused(f"{path}: {said}")

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _elsewhere(self) -> None:
        """Begin with the next of the nodes that are known."""
        self._turn += 1
        self._move(self.source.urls[self._turn % len(self.source.urls)])

    def _move(self, url: str) -> None:
        """Talk to another node from now on."""
        if url != self._client.url:
            self._client.close()
            self._client = HttpClient(url, self._token, self._context)


async def asked(caller: Caller, path: str) -> dict[str, Any]:
    """Return the JSON that is found at a place."""
    answer = await caller.ask("GET", path, timeout_s=ANSWER_S)
    body: dict[str, Any] = msgspec.json.decode(answer.body)
    return body


async def posted(
    caller: Caller,
    path: str,
    body: bytes,
    media: str = "",
    *,
    method: str = "POST",
    timeout_s: float = ANSWER_S,
) -> dict[str, Any]:
    """Send something, JSON unless told otherwise, and return the JSON that is answered."""
    answer = await caller.ask(method, path, timeout_s=timeout_s, body=body, media=media)
    said: dict[str, Any] = msgspec.json.decode(answer.body or b"{}")
    return said


class Target(Protocol):
    """The partition that a pipe fills: of this node, or of a cluster far away."""

    topic: str
    index: int
    records: int
    """How many were copied."""
    repeated: int
    """How many came and were there already."""

    @property
    def is_leader(self) -> bool:
        """Return whether batches can be stored there by us."""
        ...

    async def known(self) -> dict[int, int]:
        """Return what is there: the next offset by origin."""
        ...

    async def take(self, source: int, body: bytearray) -> int:
        """Store what is new, and return how many records that were."""
        ...


class Pull:
    """Copies one partition from one source."""

    def __init__(self, source: Source, origin: int, target: Target, traffic: Traffic) -> None:
        self.source = source
        self.target = target
        self.vitals = Vitals()
        self.error = ""
        self.origin = origin
        self._traffic = traffic
        self._caller = Caller(source, traffic.settings.token, traffic.context)
        self._backoff = Backoff(traffic.chance, most_s=BACKOFF_MOST_S)
        self._breaker = traffic.breaker(source)
        self._offset: int | None = None
        """Where to go on at the source; None where that must be found out first."""

    async def run(self) -> None:
        """Copy until cancelled; what goes wrong is tried again after a while."""
        try:
            while True:
                if not self.target.is_leader:
                    self._offset = None
                    await asyncio.sleep(FOREIGN_S)
                    continue
                now_s = self._traffic.clock.monotonic_s()
                if not self._breaker.allows(now_s):
                    await asyncio.sleep(self._breaker.wait_s(now_s))
                    continue
                await self._attempt()
        finally:
            self._caller.close()

    async def _attempt(self) -> None:
        try:
            wait_s = await self._round()
        except Unreachable as error:
            self._failed(error)
            self._breaker.failed(self._traffic.clock.monotonic_s())
            wait_s = self._backoff.next_s()
        except (Refused, ChordMQError) as error:
            self._failed(error)
            self._breaker.succeeded()  # somebody is there
            self._offset = None
            wait_s = self._backoff.next_s()
        except Exception as error:  # one pipe must not end the node
            log.exception("a pipe failed", topic=self.target.topic)
            self._failed(error)
            self._offset = None
            wait_s = BACKOFF_MOST_S
        else:
            self.vitals.note(is_well=True)
            self._breaker.succeeded()
            self.error = ""
            self._backoff.reset()
        if wait_s:
            await asyncio.sleep(wait_s)

    def _failed(self, error: Exception) -> None:
        if not self.error:
            where = f"{self.target.topic}-{self.target.index}"
            log.warning("a pipe is interrupted", source=self.source.url, at=where, why=str(error))
        self.error = str(error)
        self._traffic.failures += 1
        self.vitals.note(is_well=False)

    async def _round(self) -> float:
        """Ask once and store what comes; return how long to wait before the next time."""
        if wait_s := self._wait_s(0):
            return wait_s
        if self._offset is None:
            self._offset = await self._place()
        answer = await self._ask(self._offset)
        following = int(answer.headers["chordmq-next-offset"])
        end = int(answer.headers["chordmq-end-offset"])
        self._traffic.bytes += len(answer.body)
        await self.target.take(self.origin, answer.body)
        self._offset = following
        self.vitals.lag = max(0, end - following)
        return self._wait_s(len(answer.body))

    def _wait_s(self, size: int) -> float:
        clock = self._traffic.clock
        return self._traffic.pace.wait_s(size, clock.monotonic_s(), clock.now_ms())

    async def _place(self) -> int:
        """Ask the source where there is something new for this partition."""
        known = {str(origin): offset for origin, offset in (await self.target.known()).items()}
        answer = await posted(self._caller, f"{self._path}/place", msgspec.json.encode(known))
        return int(answer["offset"])

    async def _ask(self, offset: int) -> Answer:
        settings = self._traffic.settings
        limits = f"max_bytes={settings.batch_bytes}&wait_ms={settings.wait_ms}"
        return await self._caller.ask(
            "GET",
            f"{self._path}/batches?offset={offset}&{limits}",
            timeout_s=ANSWER_S + settings.wait_ms / 1000,
        )

    @property
    def _path(self) -> str:
        return f"/v1/topics/{self.target.topic}/partitions/{self.target.index}"

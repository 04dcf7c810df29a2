"""One pipe: asks a source for the batches of a partition, again and again, and stores them."""

import asyncio
import random
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog

from chordmq.client.backoff import Backoff
from chordmq.clock import Clock
from chordmq.errors import ChordMQError
from chordmq.topology.http import Answer, HttpClient, Unreachable
from chordmq.topology.inlet import Inlet
from chordmq.topology.pipe import Pace, Vitals
from chordmq.topology.settings import PipesSettings

ANSWER_S = 15.0
BACKOFF_MOST_S = 5.0
FOREIGN_S = 1.0
"""How often to look whether this node leads a partition by now."""
REDIRECTS_MAX = 3

log = structlog.get_logger(__name__)


class Refused(Exception):
    """A source answered, but not with batches."""


@dataclass(frozen=True, slots=True)
class Source:
    """Another node, by its cluster id; `name` is what the registry calls it."""

    name: str
    url: str


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What all pipes of a node share."""

    settings: PipesSettings
    clock: Clock
    own: str
    """This node's cluster id: records that it wrote do not come back to it."""
    pace: Pace
    bytes: int = 0
    failures: int = 0
    chance: random.Random = field(default_factory=random.Random)


class Pull:
    """Copies one partition from one source."""

    def __init__(self, source: Source, origin: str, inlet: Inlet, traffic: Traffic) -> None:
        self.source = source
        self.inlet = inlet
        self.vitals = Vitals()
        self.error = ""
        self.origin = origin
        self._traffic = traffic
        self._client = HttpClient(source.url, traffic.settings.token)
        self._backoff = Backoff(traffic.chance, most_s=BACKOFF_MOST_S)

    async def run(self) -> None:
        """Copy until cancelled; what goes wrong is tried again after a while."""
        try:
            while True:
                if not self.inlet.partition.is_leader:
                    self.inlet.forget()
                    await asyncio.sleep(FOREIGN_S)
                    continue
                await self._attempt()
        finally:
            self._client.close()

    async def _attempt(self) -> None:
        try:
            wait_s = await self._round()
        except (Unreachable, Refused, ChordMQError) as error:
            self._failed(error)
            wait_s = self._backoff.next_s()
        except Exception as error:  # one pipe must not end the node
            log.exception("a pipe failed", topic=self.inlet.partition.topic)
            self._failed(error)
            wait_s = BACKOFF_MOST_S
        else:
            self.vitals.note(is_well=True)
            self.error = ""
            self._backoff.reset()
        if wait_s:
            await asyncio.sleep(wait_s)

    def _failed(self, error: Exception) -> None:
        if not self.error:
            where = f"{self.inlet.partition.topic}-{self.inlet.partition.index}"
            log.warning("a pipe is interrupted", source=self.source.url, at=where, why=str(error))
        self.error = str(error)
        self._traffic.failures += 1
        self.vitals.note(is_well=False)

    async def _round(self) -> float:
        """Ask once and store what comes; return how long to wait before the next time."""
        offset = self.inlet.progress.next.get(self.origin, 0)
        answer = await self._ask(offset)
        following = int(answer.headers["chordmq-next-offset"])
        end = int(answer.headers["chordmq-end-offset"])
        self._traffic.bytes += len(answer.body)
        await self.inlet.take(self.origin, self._traffic.own, answer.body, following)
        self.vitals.lag = max(0, end - following)
        return self._traffic.pace.wait_s(len(answer.body), self._traffic.clock.monotonic_s())

    async def _ask(self, offset: int) -> Answer:
        settings, partition = self._traffic.settings, self.inlet.partition
        path = (
            f"/v1/topics/{partition.topic}/partitions/{partition.index}/batches"
            f"?offset={offset}&max_bytes={settings.batch_bytes}&wait_ms={settings.wait_ms}"
        )
        timeout_s = ANSWER_S + settings.wait_ms / 1000
        answer = await self._client.ask("GET", path, timeout_s=timeout_s)
        for _ in range(REDIRECTS_MAX):
            if answer.status != HTTPStatus.TEMPORARY_REDIRECT:
                break
            self._move(answer.headers.get("location", ""))
            answer = await self._client.ask("GET", path, timeout_s=timeout_s)
        if answer.status == HTTPStatus.OK:
            return answer
        self._move(self.source.url)
        raise Refused(f"{answer.status}: {answer.body.decode(errors='replace')[:200]}")

    def _move(self, place: str) -> None:
        """Talk to another node of the source's cluster from now on."""
        parts = urlsplit(place)
        url = f"{parts.scheme}://{parts.netloc}"
        if parts.netloc and url != self._client.url:
            self._client.close()
            self._client = HttpClient(url, self._traffic.settings.token)

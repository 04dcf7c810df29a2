"""A node's side of the registry: registers, follows the tree, works on when nobody answers."""

import asyncio
import random
import ssl
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import msgspec

from chordmq.client.backoff import Backoff
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger
from chordmq.storage.files import replace
from chordmq.topology.http import Answer, HttpClient, Unreachable
from chordmq.topology.registry.nodes import Registration, Topology

BEAT_S = 1.0
WAIT_S = 30.0
ANSWER_S = 10.0
BACKOFF_MOST_S = 1.0
"""The registry answers little and seldom: one that is back is to be heard of within a second."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Which registry a node belongs to, and as whom."""

    registry: str
    node: str
    token: str = ""
    context: ssl.SSLContext | None = None
    cache: Path
    """The file that keeps the last tree, for starts while the registry is away."""


class Follower:
    """The tree as far as this node knows it; `changed` is told of each new version."""

    def __init__(
        self, seat: Seat, describe: Callable[[], Registration], changed: Callable[[], None]
    ) -> None:
        self._seat = seat
        self._describe = describe
        self._changed = changed
        self.topology = _read(seat.cache)
        self.is_connected = False
        self.refusal = ""
        """Why the registry does not take this node; empty when it does."""

    async def run(self) -> None:
        """Register again and again, and hear of changes the moment they happen."""
        seat = self._seat
        beats, news = (HttpClient(seat.registry, seat.token, seat.context) for _ in range(2))
        with closing(beats), closing(news):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat(beats))
                tasks.create_task(self._follow(news))

    async def _beat(self, client: HttpClient) -> None:
        path = f"/v1/nodes/{quote(self._seat.node, safe='')}"
        while True:
            body = msgspec.json.encode(self._describe())
            try:
                answer = await client.ask("PUT", path, timeout_s=ANSWER_S, body=body)
            except Unreachable as error:
                self._lost(str(error))
            else:
                await self._heard(answer)
            await asyncio.sleep(BEAT_S)

    async def _follow(self, client: HttpClient) -> None:
        backoff = Backoff(random.Random(), most_s=BACKOFF_MOST_S)  # noqa: S311 (no secret)
        while True:
            known = {"if-none-match": f'"{self.topology.version}"'}
            try:
                answer = await client.ask(
                    "GET", f"/v1/topology?wait_s={WAIT_S}",
                    timeout_s=WAIT_S + ANSWER_S, headers=known,
                )  # fmt: skip
            except Unreachable as error:
                self._lost(str(error))
                await asyncio.sleep(backoff.next_s())
                continue
            if answer.status in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED):
                backoff.reset()
                await self._heard(answer)
            else:
                await asyncio.sleep(backoff.next_s())

    def _lost(self, reason: str) -> None:
        if self.is_connected:
            log.warning("the registry is away; the last topology stands", reason=reason)
        self.is_connected = False

    async def _heard(self, answer: Answer) -> None:
        self.is_connected = True
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return
        if answer.status != HTTPStatus.OK:
            refusal = answer.body.decode(errors="replace")[:500]
            if refusal != self.refusal:
                log.error("the registry refuses this node", status=answer.status, reason=refusal)
            self.refusal = refusal
            return
        self.refusal = ""
        heard = msgspec.json.decode(answer.body, type=Topology)
        if heard.version == self.topology.version:
            return
        self.topology = heard
        await asyncio.to_thread(replace, self._seat.cache, bytes(answer.body))
        self._changed()


def _read(cache: Path) -> Topology:
    """Return the tree that was kept; an empty one if there is none that can be read."""
    try:
        return msgspec.json.decode(cache.read_bytes(), type=Topology)
    except FileNotFoundError:
        return Topology()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("the kept topology cannot be read", file=str(cache), error=str(error))
        return Topology()

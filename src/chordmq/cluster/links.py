"""The links of a node: one connection to each other node, kept up, over which all of them talk.

Of two nodes the one with the lower number dials. A link over which nothing comes is asked for a
sign of life, and given up when none comes. Watchers learn of links that come up and end; what was
sent over a link that has ended may or may not have arrived.
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from chordmq.client.backoff import Backoff
from chordmq.client.breaker import Breaker, BreakerSettings
from chordmq.client.connection import Address
from chordmq.clock import Clock
from chordmq.cluster.link import Caller, Handler, Link, LinkDown, NoticeHandler, Watcher
from chordmq.codecs.peer.frames import VERSION, Body, Hello, Kind
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError, InvalidRequest, StaleBrokerEpoch
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing

log = get_logger(__name__)

DIAL_TIMEOUT_S = 2.0
ASK_TIMEOUT_S = 2.0
GRACE_S = 1.0
"""How long after a link has ended requests still wait for the next one."""
CHECK_INTERVAL_S = 0.5
SILENCE_ASKED_S = 1.0
"""After so long without a frame the other node is asked for one."""
SILENCE_MAX_S = 4.0
"""After so long without a frame the link counts as broken."""
UNTRACED = (Kind.PING, Kind.RING)
"""What nodes ask each other all the time, whatever clients do."""
REST = BreakerSettings(failures_max=5, rest_first_s=0.5, rest_most_s=4.0)

Guard = Callable[[], ssl.SSLContext | None]


class Place(NamedTuple):
    """Where a node is, and in which of its lives it says so."""

    address: Address
    epoch: int = 0


@dataclass(slots=True, eq=False)
class Peer:
    """Another node: where it is, and the link to it while there is one."""

    broker: int
    place: Place
    breaker: Breaker
    link: Link | None = None
    is_up: asyncio.Event = field(default_factory=asyncio.Event)
    down_since_s: float = 0.0
    knocked_s: float = 0.0
    dialling: asyncio.Task[None] | None = None

    def leads_to(self, place: Place) -> bool:
        """Return whether nothing need change to reach the node at a place."""
        is_same_life = place.epoch == self.place.epoch or self.link is not None
        return is_same_life and place.address == self.place.address


class Links:
    """All links of one node, its handlers, and who is at the other ends."""

    def __init__(self, cluster: str, broker: int, uuid: str, clock: Clock, guard: Guard) -> None:
        self.peers: dict[int, Peer] = {}
        self.on_connected: list[Watcher] = []
        """Called with the node's number when requests can be sent to it."""
        self.on_lost: list[Watcher] = []
        """Called when they cannot any more; all that was asked has failed by then."""
        self.on_refused: list[Watcher] = []
        """Called when nobody listens where a node should be: its program has ended, or begins."""
        self.tracing: Tracing | None = None
        """What records spans of requests; None where nobody wants them."""
        self._hello = Hello(VERSION, cluster, broker, 0, uuid)
        self._clock = clock
        self._guard = guard
        self._chance = random.Random()  # noqa: S311 - for jitter only
        self._handlers: dict[int, Handler] = {Kind.PING: _pong}
        self._noticed: dict[int, NoticeHandler] = {}
        self._epochs: dict[int, int] = {}
        """The newest epoch in which each node has been heard."""
        self._tasks: asyncio.TaskGroup | None = None

    # What the node's other parts use.

    @property
    def broker(self) -> int:
        """Return this node's number."""
        return self._hello.broker

    def begin(self, epoch: int) -> None:
        """Speak in a new epoch from now on: the node has registered (again)."""
        me = self._hello
        self._hello = Hello(me.version, me.cluster, me.broker, epoch, me.uuid)

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        assert kind not in self._handlers
        self._handlers[kind] = handler

    def on(self, kind: int, handler: NoticeHandler) -> None:
        """Have notices of this kind taken by a handler, in the order they were sent."""
        assert kind not in self._noticed
        self._noticed[kind] = handler

    def follow(self, places: Mapping[int, Place]) -> None:
        """Keep links to these nodes, and end those to others and to where nodes are no more."""
        for broker, known in list(self.peers.items()):
            place = places.get(broker)
            if place is not None and known.leads_to(place):
                known.place = place
            else:
                self._leave(self.peers.pop(broker))
        for broker, place in places.items():
            if broker != self.broker and broker not in self.peers:
                self._add(broker, place)

    def is_connected(self, broker: int) -> bool:
        """Return whether a node can be asked now."""
        peer = self.peers.get(broker)
        return peer is not None and peer.link is not None

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        peer = self.peers.get(broker)
        if peer is None or peer.link is None:
            return False
        peer.link.tell(kind, body)
        return True

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = ASK_TIMEOUT_S
    ) -> memoryview:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        if broker == self.broker:
            parts = await self.serve(Caller(broker, self._hello.epoch), kind, _joined(body))
            return _joined(parts)
        link = await self._link(broker, timeout_s)
        if self.tracing is None or kind in UNTRACED:
            return await link.ask(kind, body, timeout_s)
        with self.tracing.asking(Kind(kind).name, broker) as trace:
            return await link.ask(kind, body, timeout_s, trace)

    async def run(self) -> None:
        """Dial, redial and watch the links until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for peer in self.peers.values():
                    self._begin_to_dial(peer)
                while True:
                    await asyncio.sleep(CHECK_INTERVAL_S)
                    self._check_silence()
            finally:  # before the work under way has ended: none may be begun meanwhile
                self._tasks = None
                for peer in self.peers.values():
                    if peer.link is not None:
                        peer.link.close("the node is shutting down")

    async def _link(self, broker: int, timeout_s: float) -> Link:
        peer = self.peers.get(broker)
        if peer is None:
            raise LinkDown(f"node {broker} is not known")
        if peer.link is None:
            left_s = peer.down_since_s + GRACE_S - self._clock.monotonic_s()
            if left_s <= 0:
                raise LinkDown(f"no link to node {broker} at {peer.place.address}")
            try:
                async with asyncio.timeout(min(left_s, timeout_s)):
                    await peer.is_up.wait()
            except TimeoutError:
                raise LinkDown(f"no link to node {broker} at {peer.place.address}") from None
        if peer.link is None:
            raise LinkDown(f"the link to node {broker} has just ended")
        return peer.link

    def _add(self, broker: int, place: Place) -> None:
        breaker = Breaker(f"node {broker}", self._chance, REST)
        peer = Peer(broker, place, breaker, down_since_s=self._clock.monotonic_s())
        self.peers[broker] = peer
        if self._tasks is not None:
            self._begin_to_dial(peer)

    def _leave(self, peer: Peer) -> None:
        if peer.dialling is not None:
            peer.dialling.cancel()
        if peer.link is not None:
            link, peer.link = peer.link, None
            link.close("the node has left the cluster")
            self._lost(peer)  # nobody else would tell: it is not among the peers any more

    def _begin_to_dial(self, peer: Peer) -> None:
        if self.broker < peer.broker:
            assert self._tasks is not None
            peer.dialling = self._tasks.create_task(self._keep_dialled(peer))

    async def _keep_dialled(self, peer: Peer) -> None:
        """Have a link to a node as long as it is known."""
        backoff = Backoff(self._chance)
        while True:
            if not peer.breaker.allows(self._clock.monotonic_s()):
                await asyncio.sleep(peer.breaker.wait_s(self._clock.monotonic_s()))
                continue
            try:
                link = await self._dial(peer)
            except (OSError, LinkDown) as error:
                peer.breaker.failed(self._clock.monotonic_s())
                log.debug("cannot reach node", broker=peer.broker, reason=str(error))
                if isinstance(error, ConnectionRefusedError):
                    self._refused(peer)
                await asyncio.sleep(backoff.next_s())
                continue
            peer.breaker.succeeded()
            backoff.reset()
            await link.ended.wait()

    async def _dial(self, peer: Peer) -> Link:
        place = peer.place.address
        guard = self._guard()
        link = Link(self, peer.broker)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: link, place.host, place.port, ssl=guard
                )
                await link.met
        except TimeoutError:
            link.close("the node does not answer")
            raise LinkDown("the node does not answer") from None
        except asyncio.CancelledError:
            link.close("the node is not called any more")
            raise
        return link

    def _check_silence(self) -> None:
        now_s = self._clock.monotonic_s()
        for peer in list(self.peers.values()):
            if peer.link is None:
                self._look_for(peer, now_s)
                continue
            silent_s = now_s - peer.link.last_active_s
            if silent_s > SILENCE_MAX_S:
                peer.link.close(f"nothing has come for {silent_s:.1f} s")
            elif silent_s > SILENCE_ASKED_S:
                peer.link.ask(Kind.PING, (), SILENCE_MAX_S).add_done_callback(_forget)

    def _look_for(self, peer: Peer, now_s: float) -> None:
        """Knock now and then at a node that should have dialled; those we dial answer anyway."""
        quiet_s = now_s - max(peer.down_since_s, peer.knocked_s)
        if peer.broker < self.broker and quiet_s > GRACE_S:
            peer.knocked_s = now_s
            assert self._tasks is not None
            self._tasks.create_task(self._knock(peer))

    # What a link asks its home.

    def hello(self) -> Hello:
        """Return who this node is."""
        return self._hello

    def now_s(self) -> float:
        """Return seconds that never go back."""
        return self._clock.monotonic_s()

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the work of one request."""
        assert self._tasks is not None
        return self._tasks.create_task(work)

    def meet(self, link: Link, hello: Hello) -> None:
        """Take note of who is at the other end; a newer link to the same node replaces the old."""
        me = self._hello
        if self._tasks is None:
            raise DecodeError(f"node {me.broker} is not part of the cluster now")
        if hello.cluster != me.cluster:
            raise DecodeError(f"node {hello.broker} belongs to another cluster, {hello.cluster}")
        peer = self.peers.get(hello.broker)
        if peer is None:
            raise DecodeError(f"node {hello.broker} is not known to node {me.broker}")
        if hello.epoch < self._epochs.get(hello.broker, 0):
            raise DecodeError(f"node {hello.broker} has registered again since")
        self._epochs[hello.broker] = hello.epoch
        before, peer.link = peer.link, link
        if before is not None:
            before.close("the node has connected again")
            self._lost(peer)
        asyncio.get_running_loop().call_soon(self._connected, peer, link)

    def part(self, link: Link) -> None:
        """Take note that a link has ended."""
        for peer in self.peers.values():
            if peer.link is link:
                peer.link = None
                peer.is_up.clear()
                peer.down_since_s = self._clock.monotonic_s()
                self._lost(peer)

    def check(self, caller: Caller) -> None:
        """Raise StaleBrokerEpoch for what an earlier life of a node has sent."""
        newest = self._epochs.get(caller.broker, 0)
        if caller.epoch < newest:
            raise StaleBrokerEpoch(f"node {caller.broker} is in epoch {newest}")
        self._epochs[caller.broker] = caller.epoch

    def serve(
        self, caller: Caller, kind: int, body: memoryview, trace: str = ""
    ) -> Awaitable[Body]:
        """Carry out what a node asks, in the trace that it has sent along."""
        handler = self._handlers.get(kind)
        if handler is None:
            raise InvalidRequest(f"nobody here answers requests of kind {kind}")
        work = handler(caller, body)
        if self.tracing is None or not trace:
            return work
        return self.tracing.serving(Kind(kind).name, caller.broker, trace, work)

    def notice(self, caller: Caller, kind: int, body: memoryview) -> None:
        """Take note of what a node tells; what nobody has asked to know is dropped."""
        handler = self._noticed.get(kind)
        if handler is not None:
            handler(caller, body)

    def _connected(self, peer: Peer, link: Link) -> None:
        """Tell the watchers, after the other end has had its hello."""
        if peer.link is link and link.is_open:
            peer.is_up.set()
            for watcher in self.on_connected:
                watcher(peer.broker)

    def _lost(self, peer: Peer) -> None:
        for watcher in self.on_lost:
            watcher(peer.broker)
        if self._tasks is not None:
            self._tasks.create_task(self._knock(peer))

    def _refused(self, peer: Peer) -> None:
        if self.peers.get(peer.broker) is peer and peer.link is None:
            for watcher in self.on_refused:
                watcher(peer.broker)

    async def _knock(self, peer: Peer) -> None:
        """See whether a lost node's program has ended, which a lease would tell much later."""
        address = peer.place.address
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
        except ConnectionRefusedError:
            self._refused(peer)
        except (OSError, TimeoutError):
            return


async def _pong(caller: Caller, body: memoryview) -> Body:
    return [body]


def _joined(body: Body) -> memoryview:
    return memoryview(body[0] if len(body) == 1 else b"".join(body))


def _forget(future: "asyncio.Future[memoryview]") -> None:
    """Take an outcome that only the link's own clock needs."""
    if not future.cancelled():
        future.exception()

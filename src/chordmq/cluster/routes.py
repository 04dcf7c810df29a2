"""This node's place on the ring: drives its member over the links, finds owners, reaches all."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from chordmq.client.connection import Address
from chordmq.cluster.link import Caller, LinkDown, PeerRefused
from chordmq.cluster.links import Links, Place
from chordmq.cluster.members import Members
from chordmq.cluster.ring.identifier import place_of_broker
from chordmq.cluster.ring.member import Found, Member
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.codecs.peer.ring import Answer, Message, Notify, Request, decode, encode
from chordmq.errors import DecodeError, ShuttingDown

TICK_INTERVAL_S = 1.0
TIMEOUT_S = 1.0
PROTOCOL = "peer"

Watcher = Callable[[int, bytes], None]
"""Gets the broker that has sent something to all, and what it was."""


class Route(NamedTuple):
    """Who owns a key, and how many were asked."""

    broker: int
    hops: int


class Routes:
    """The shell of the ring's machine: registry in, messages out and in, at intervals a step."""

    def __init__(self, links: Links, members: Members, cluster_id: str) -> None:
        self.links = links
        self._members = members
        self._cluster_id = cluster_id
        self._brokers: dict[int, int] = {}
        """The living brokers by their places."""
        self._waiting: dict[int, asyncio.Future[Found]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.watchers: list[Watcher] = []
        self.member: Member | None = None
        """None until the node has registered."""
        links.answer(Kind.RING, self._answer)
        links.on(Kind.RING, self._noticed)

    def know(self) -> None:
        """Take note of who is registered and who lives, after each change of it."""
        registered = self._members.all()
        places = {}
        for broker in registered:
            endpoint = broker.endpoint(PROTOCOL)
            if endpoint is not None:
                places[broker.id] = Place(Address(endpoint.host, endpoint.port), broker.epoch)
        self.links.follow(places)
        self._brokers = {
            place_of_broker(self._cluster_id, broker.registration.uuid): broker.id
            for broker in registered
            if broker.is_live
        }
        if self.member is not None:
            self.member.know(self._brokers)

    def begin(self, uuid: str, epoch: int) -> None:
        """Join the ring in a new life: the node has registered."""
        self.member = Member(place_of_broker(self._cluster_id, uuid), epoch)
        self.know()

    async def run(self) -> None:
        """Keep this node's place until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                while True:
                    if self.member is not None:
                        self.member.tick()
                        self._flush()
                    await asyncio.sleep(TICK_INTERVAL_S)
            finally:
                self._tasks = None

    async def look_up(self, key: int) -> Route:
        """Return who owns a key, by asking along the ring."""
        if self.member is None or self._tasks is None:
            raise ShuttingDown("the node has no place on the ring now")
        ticket = self.member.look_up(key)
        future = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        self._flush()
        try:
            found = await future
        finally:
            self._waiting.pop(ticket, None)
        if found.owner not in self._brokers:
            raise ShuttingDown("nobody on the ring could say who owns the key now")
        return Route(self._brokers[found.owner], found.hops)

    def broadcast(self, payload: bytes) -> None:
        """Have every other node of the ring get a payload, once; who is away misses it."""
        if self.member is not None:
            self.member.broadcast(payload)
            self._flush()

    def broker_at(self, place: int | None) -> int | None:
        """Return which living broker stands at a place, or None if it is nobody's."""
        return None if place is None else self._brokers.get(place)

    # Messages out and in.

    def _flush(self) -> None:
        """Send what the machine has to say, and hand out what it has found and was told."""
        member = self.member
        if member is None or self._tasks is None:
            return
        while outbox := member.take_outbox():
            for place, message in outbox:
                self._send(member, place, message)
        for found in member.take_found():
            future = self._waiting.pop(found.ticket, None)
            if future is not None and not future.done():
                future.set_result(found)
        for spread in member.take_delivered():
            origin = self._brokers.get(spread.origin, -1)
            for watcher in self.watchers:
                watcher(origin, spread.payload)

    def _send(self, member: Member, place: int, message: Message) -> None:
        broker = self._brokers.get(place)
        if isinstance(message, Notify):
            if broker is not None:
                self.links.send(broker, Kind.RING, [encode(message)])
        elif isinstance(message, Request):
            if broker is None:
                member.failed(message.number)
            else:
                assert self._tasks is not None
                self._tasks.create_task(self._ask(member, broker, message))

    async def _ask(self, member: Member, broker: int, request: Request) -> None:
        tell = partial(member.failed, request.number)
        try:
            body = await self.links.ask(broker, Kind.RING, [encode(request)], TIMEOUT_S)
            answer = decode(body)
            if isinstance(answer, Answer) and answer.number == request.number:
                tell = partial(member.receive, answer)
        except (LinkDown, PeerRefused, DecodeError):
            pass
        tell()
        if member is self.member:
            self._flush()

    async def _answer(self, caller: Caller, body: memoryview) -> Body:
        request = decode(body)
        if not isinstance(request, Request):
            raise DecodeError("this is no request")
        answer = self.member.answer(request) if self.member is not None else None
        self._flush()
        if answer is None:
            raise ShuttingDown("the node has no place on the ring now")
        return [encode(answer)]

    def _noticed(self, caller: Caller, body: memoryview) -> None:
        message = decode(body)
        if isinstance(message, Notify) and self.member is not None:
            self.member.notified(message)
            self._flush()

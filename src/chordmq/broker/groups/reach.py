"""What fronts ask about groups, on whichever node these are looked after."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from chordmq.broker.forwarding import Nodes, error_of
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.coordinator import OUTSIDER, GroupCoordinator
from chordmq.broker.groups.offsets import Commit, Place
from chordmq.cluster.link import Caller, LinkDown, PeerRefused
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    DecodeError,
    NotCoordinator,
)

TIMEOUT_S = 5.0
PATIENCE_S = 8.0
"""How long a new coordinator is waited for."""
LOOK_INTERVAL_S = 0.05

Result = TypeVar("Result")


class Kept(msgspec.Struct, frozen=True, tag=True):
    """Asks for the offsets that a group has committed."""

    group: str


class Keep(msgspec.Struct, frozen=True, tag=True):
    """Asks to commit offsets for a group."""

    group: str
    commits: tuple[Commit, ...]


class Drop(msgspec.Struct, frozen=True, tag=True):
    """Asks to delete a group that has no members, with all its offsets."""

    group: str


class Listing(msgspec.Struct, frozen=True, tag=True):
    """Asks which groups the node looks after."""


class KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset."""

    topic: str
    partition: int
    offset: int


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """A group, in short."""

    group: str
    state: str
    protocol_type: str
    members: int


class GroupReach:
    """Asks the coordinators of groups; a node alone is the coordinator of all."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        self._nodes: Nodes | None = None

    def join(self, nodes: Nodes) -> None:
        """Be part of a cluster."""
        self._nodes = nodes
        nodes.answer(Kind.GROUP, self._serve)

    async def committed(self, group: str) -> Mapping[Place, int]:
        """Return the offsets that a group has committed, by topic and partition."""

        async def here() -> Mapping[Place, int]:
            found = self._groups.committed(group)
            return {place: one.offset for place, one in found.items()}

        async def there(node: int) -> Mapping[Place, int]:
            body = await self._ask(node, Kept(group))
            rows = msgspec.msgpack.decode(body, type=list[KeptRow])
            return {(row.topic, row.partition): row.offset for row in rows}

        return await self._where_kept(here, there)

    async def commit(self, group: str, commits: Sequence[Commit]) -> None:
        """Commit offsets of a group without members; return once they are safe, or raise why not.

        Those that are refused keep none of the others back.
        """

        async def here() -> None:
            raise_first(await self._groups.commit(group, OUTSIDER, commits))

        async def there(node: int) -> None:
            await self._ask(node, Keep(group, tuple(commits)))

        await self._where_kept(here, there)

    async def delete(self, group: str) -> None:
        """Delete a group without members, with all its offsets."""

        async def there(node: int) -> None:
            await self._ask(node, Drop(group))

        await self._where_kept(lambda: self._groups.delete(group), there)

    async def all(self, nodes: Iterable[int]) -> list[Summary]:
        """Return the groups that these nodes look after, by name.

        Those of a node that does not answer are missing until another one looks after them.
        """
        others = [] if self._nodes is None else nodes
        found = {one.group: one for one in self._summaries()}
        for listed in await asyncio.gather(*(self._listed(node) for node in others)):
            found |= {one.group: one for one in listed}
        return sorted(found.values(), key=lambda one: one.group)

    async def _listed(self, node: int) -> list[Summary]:
        try:
            body = await self._ask(node, Listing())
        except CoordinatorNotAvailable:
            return []
        return msgspec.msgpack.decode(body, type=list[Summary])

    async def _where_kept(
        self, here: Callable[[], Awaitable[Result]], there: Callable[[int], Awaitable[Result]]
    ) -> Result:
        """Do it here, or have it done where the group is looked after."""
        if self._nodes is None:
            return await here()
        await self._groups.prepare()
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                return await here()
            except NotCoordinator as elsewhere:
                node, fault = elsewhere.node, ChordMQError(str(elsewhere))
            except (CoordinatorLoading, CoordinatorNotAvailable) as error:
                node, fault = -1, error
            try:
                if node >= 0:
                    return await there(node)
            except (NotCoordinator, CoordinatorLoading, CoordinatorNotAvailable) as error:
                fault = error
            if asyncio.get_running_loop().time() > deadline_s:
                raise CoordinatorNotAvailable(str(fault))
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _ask(self, node: int, wish: Kept | Keep | Drop | Listing) -> memoryview:
        assert self._nodes is not None
        try:
            body = [msgspec.msgpack.encode(wish)]
            return await self._nodes.ask(node, Kind.GROUP, body, TIMEOUT_S)
        except PeerRefused as refusal:
            raise error_of(refusal) from None
        except LinkDown as fault:
            raise CoordinatorNotAvailable(f"node {node} does not answer: {fault}") from None

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            wish = msgspec.msgpack.decode(body, type=Kept | Keep | Drop | Listing)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"no wish about a group: {error}") from None
        if isinstance(wish, Listing):
            return [msgspec.msgpack.encode(self._summaries())]
        if isinstance(wish, Keep):
            raise_first(await self._groups.commit(wish.group, OUTSIDER, wish.commits))
            return ()
        if isinstance(wish, Drop):
            await self._groups.delete(wish.group)
            return ()
        found = self._groups.committed(wish.group).items()
        rows = [KeptRow(*place, committed.offset) for place, committed in found]
        return [msgspec.msgpack.encode(rows)]

    def _summaries(self) -> list[Summary]:
        return [
            Summary(
                group.group_id,
                group.state.value,
                group.protocol_type,
                len(
                    group.image.members
                    if isinstance(group, ConsumerGroup)
                    else group.roster.members
                ),
            )
            for group in self._groups.groups()
        ]


def raise_first(results: Iterable[ChordMQError | None]) -> None:
    """Raise the first of some errors, if there is one."""
    for result in results:
        if result is not None:
            raise result

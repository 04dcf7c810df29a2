"""A store that loses answers and events, as networks do; what it has committed, it has."""

from collections.abc import AsyncGenerator, Callable, Sequence

from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.store import (
    Compare,
    Entry,
    Event,
    Operation,
    Outline,
    Snapshot,
)
from chordmq.errors import StoreUnavailable, UnknownOutcome


class UnreliableStore:
    """Stands before a real store; each list of faults is used up from its start."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.operations_max = store.operations_max
        self.commit_faults: list[str] = []
        """For each next commit: "lost" on its way there, "unanswered" on its way back, or ""."""
        self.tells: Callable[[Event], bool] = lambda _: True
        """Says which events a watch tells."""
        self.is_away = False
        self.watches = 0
        self.commits = 0

    async def get(self, key: str) -> Entry | None:
        self._check()
        return await self.store.get(key)

    async def range(self, prefix: str) -> Snapshot:
        self._check()
        return await self.store.range(prefix)

    async def outline(self, prefix: str) -> Outline:
        self._check()
        return await self.store.outline(prefix)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        self._check()
        self.commits += 1
        fault = self.commit_faults.pop(0) if self.commit_faults else ""
        if fault == "lost":
            raise UnknownOutcome("the request was lost")
        revision = await self.store.commit(compares, operations)
        if fault == "unanswered":
            raise UnknownOutcome("the answer was lost")
        return revision

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Event], None]:
        self.watches += 1
        async for events in self.store.watch(prefix, revision):
            if told := [event for event in events if self.tells(event)]:
                yield told

    async def grant(self, ttl_s: float) -> int:
        self._check()
        return await self.store.grant(ttl_s)

    async def keep(self, lease: int) -> float:
        self._check()
        return await self.store.keep(lease)

    async def revoke(self, lease: int) -> None:
        self._check()
        await self.store.revoke(lease)

    async def close(self) -> None:
        await self.store.close()

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("nobody answers")

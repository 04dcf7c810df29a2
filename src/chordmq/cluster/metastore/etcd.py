"""The store of a cluster: etcd (version 3.4 or newer), through its JSON gateway."""

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from chordmq.cluster.metastore.gateway import Gateway, GatewayRefused, GatewaySettings
from chordmq.cluster.metastore.store import (
    Compare,
    DeleteUnder,
    Entry,
    Event,
    HistoryLost,
    LeaseLost,
    Operation,
    Outline,
    Put,
    Snapshot,
    StoreConflict,
)

OPERATIONS_MAX = 127
"""What etcd takes unless told otherwise is 128; one compare stays in reserve."""

_NOT_FOUND = 5


class EtcdStore:
    """Keeps all keys of one cluster under one prefix."""

    operations_max = OPERATIONS_MAX

    def __init__(self, settings: GatewaySettings, prefix: str) -> None:
        self._gateway = Gateway(settings)
        self._prefix = prefix

    async def get(self, key: str) -> Entry | None:
        """Return the newest entry of a key, or None."""
        answer = await self._gateway.read("/v3/kv/range", {"key": self._key(key)})
        found = [self._entry(one) for one in answer.get("kvs", ())]
        return found[0] if found else None

    async def range(self, prefix: str) -> Snapshot:
        """Return the newest entries of all keys that begin so."""
        answer = await self._gateway.read("/v3/kv/range", self._under(prefix))
        found = [self._entry(one) for one in answer.get("kvs", ())]
        return Snapshot(found, _revision(answer))

    async def outline(self, prefix: str) -> Outline:
        """Return how many keys begin so, and when the newest of them was written."""
        newest = {"sort_target": "MOD", "sort_order": "DESCEND", "limit": "1", "keys_only": True}
        answer = await self._gateway.read("/v3/kv/range", self._under(prefix) | newest)
        revision = max((int(one["mod_revision"]) for one in answer.get("kvs", ())), default=0)
        return Outline(int(answer.get("count", 0)), revision)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Do all operations at one revision and return it, or raise StoreConflict and do none."""
        assert max(len(compares), len(operations)) <= OPERATIONS_MAX + 1
        body = {
            "compare": [part for compare in compares for part in self._compare(compare)],
            "success": [self._operation(operation) for operation in operations],
        }
        try:
            answer = await self._gateway.write("/v3/kv/txn", body)
        except GatewayRefused as refused:
            if refused.code == _NOT_FOUND:
                raise LeaseLost from None
            raise
        if not answer.get("succeeded"):
            raise StoreConflict
        return _revision(answer)

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Event], None]:
        """Yield what changes under a prefix after a revision, in order."""
        create = {**self._under(prefix), "start_revision": str(revision + 1)}
        async with aclosing(self._gateway.stream("/v3/watch", {"create_request": create})) as told:
            async for answer in told:
                if answer.get("canceled"):
                    raise HistoryLost
                if events := [self._event(one) for one in answer.get("events", ())]:
                    yield events

    async def grant(self, ttl_s: float) -> int:
        """Begin a lease that ends unless it is kept, and return its number."""
        answer = await self._gateway.write("/v3/lease/grant", {"TTL": str(max(1, round(ttl_s)))})
        return int(answer["ID"])

    async def keep(self, lease: int) -> float:
        """Prolong a lease; return the seconds it lasts from before the call, or raise LeaseLost."""
        # A lease that is prolonged twice lasts no shorter: this may be asked of each endpoint.
        answer = await self._gateway.read("/v3/lease/keepalive", {"ID": str(lease)})
        ttl_s = int(answer.get("TTL", 0))
        if ttl_s <= 0:
            raise LeaseLost
        return ttl_s

    async def revoke(self, lease: int) -> None:
        """End a lease now, and remove what was put under it."""
        try:
            await self._gateway.write("/v3/lease/revoke", {"ID": str(lease)})
        except GatewayRefused as refused:
            if refused.code != _NOT_FOUND:
                raise

    async def close(self) -> None:
        """Close the connections."""
        self._gateway.close()

    def _key(self, key: str) -> str:
        return b64encode((self._prefix + key).encode()).decode()

    def _under(self, prefix: str) -> dict[str, str]:
        first = (self._prefix + prefix).encode()
        # The first key after all that begin so; no prefix of ours ends with the byte 255.
        end = first[:-1] + bytes([first[-1] + 1])
        return {"key": b64encode(first).decode(), "range_end": b64encode(end).decode()}

    def _entry(self, found: dict[str, Any]) -> Entry:
        return Entry(
            b64decode(found["key"]).decode().removeprefix(self._prefix),
            b64decode(found.get("value", "")),
            int(found["mod_revision"]),
            int(found["create_revision"]),
            int(found.get("lease", 0)),
        )

    def _event(self, told: dict[str, Any]) -> Event:
        found = told["kv"]
        if told.get("type") == "DELETE":
            key = b64decode(found["key"]).decode().removeprefix(self._prefix)
            return Event(key, int(found["mod_revision"]), None)
        entry = self._entry(found)
        return Event(entry.key, entry.revision, entry)

    def _compare(self, compare: Compare) -> list[dict[str, str]]:
        key, parts = self._key(compare.key), []
        if compare.revision is not None:
            parts.append({"target": "MOD", "mod_revision": str(compare.revision)})
        if compare.created is not None:
            parts.append({"target": "CREATE", "create_revision": str(compare.created)})
        if compare.exists is not None:
            result = "GREATER" if compare.exists else "EQUAL"
            parts.append({"target": "CREATE", "create_revision": "0", "result": result})
        return [{"key": key, "result": "EQUAL", **part} for part in parts]

    def _operation(self, operation: Operation) -> dict[str, Any]:
        if isinstance(operation, Put):
            value = b64encode(operation.value).decode()
            put = {"key": self._key(operation.key), "value": value, "lease": str(operation.lease)}
            return {"request_put": put}
        if isinstance(operation, DeleteUnder):
            return {"request_delete_range": self._under(operation.prefix)}
        return {"request_delete_range": {"key": self._key(operation.key)}}


def _revision(answer: dict[str, Any]) -> int:
    return int(answer["header"]["revision"])

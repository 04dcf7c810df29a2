"""Where pipes come from: another cluster's topics, over HTTP from a node of ours."""

import ssl
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from chordmq.records.origin import origin_id
from chordmq.topology.calling import ANSWER_S, Caller, Refused, Source, asked, posted
from chordmq.topology.settings import PipesSettings

Place = tuple[str, int]
"""Topic and partition."""


class Offered(NamedTuple):
    """A topic that can be copied."""

    name: str
    partitions: int
    origin: int


class Batches(NamedTuple):
    """Whole batches as they are stored, where to go on, and where the partition ends."""

    body: bytearray
    next_offset: int
    end_offset: int


class Upstream(Protocol):
    """Another cluster as a pipe sees it; calls raise Unreachable or Refused."""

    source: Source

    async def cluster_id(self) -> str:
        """Return which cluster it is."""
        ...

    async def topics(self) -> list[Offered]:
        """Return the topics that can be copied."""
        ...

    async def settings(self, topic: str) -> dict[str, str]:
        """Return what is set for a topic."""
        ...

    async def place(self, topic: str, index: int, origin: int, known: Mapping[int, int]) -> int:
        """Return from which offset on there may be something new for who knows so much."""
        ...

    async def batches(self, topic: str, index: int, offset: int) -> Batches:
        """Return what lies from an offset on, as soon as there is something."""
        ...

    async def groups(self) -> list[str]:
        """Return the consumer groups."""
        ...

    async def committed(self, group: str) -> dict[Place, int]:
        """Return how far a group is."""
        ...

    async def members(self, group: str) -> int:
        """Return how many consumers a group has."""
        ...

    async def known_at(self, topic: str, index: int, offset: int) -> dict[int, int]:
        """Return how far each origin is for who has all before an offset."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class HttpUpstream:
    """A cluster of ours."""

    def __init__(
        self, source: Source, settings: PipesSettings, context: ssl.SSLContext | None
    ) -> None:
        self.source = source
        self._wait_s = settings.wait_ms / 1000
        self._limits = f"max_bytes={settings.batch_bytes}&wait_ms={settings.wait_ms}"
        self._caller = Caller(source, settings.token, context)

    async def cluster_id(self) -> str:
        """Return which cluster it is."""
        return str((await asked(self._caller, "/v1/info"))["cluster_id"])

    async def topics(self) -> list[Offered]:
        """Return the topics that can be copied."""
        cluster = await self.cluster_id()
        return [
            Offered(row["name"], row["partitions"], origin_id(cluster, row["id"]))
            for row in (await asked(self._caller, "/v1/topics"))["topics"]
            if not row["internal"]
        ]

    async def settings(self, topic: str) -> dict[str, str]:
        """Return what is set for a topic."""
        found: dict[str, str] = (await asked(self._caller, f"/v1/topics/{topic}"))["settings"]
        return found

    async def place(self, topic: str, index: int, _origin: int, known: Mapping[int, int]) -> int:
        """Return from which offset on there may be something new for who knows so much."""
        return await find_place(self._caller, topic, index, known)

    async def batches(self, topic: str, index: int, offset: int) -> Batches:
        """Return what lies from an offset on, as soon as there is something."""
        path = f"{partition_path(topic, index)}/batches?offset={offset}&{self._limits}"
        answer = await self._caller.ask("GET", path, timeout_s=ANSWER_S + self._wait_s)
        following, end = (int(answer.headers[f"chordmq-{name}-offset"]) for name in ("next", "end"))
        return Batches(answer.body, following, end)

    async def groups(self) -> list[str]:
        """Return the consumer groups."""
        return [row["group"] for row in (await asked(self._caller, "/v1/groups"))["groups"]]

    async def committed(self, group: str) -> dict[Place, int]:
        """Return how far a group is."""
        return await committed(self._caller, group)

    async def members(self, group: str) -> int:
        """Return how many consumers a group has."""
        return len((await asked(self._caller, f"/v1/groups/{quote(group, safe='')}"))["members"])

    async def known_at(self, topic: str, index: int, offset: int) -> dict[int, int]:
        """Return how far each origin is for who has all before an offset."""
        path = f"{partition_path(topic, index)}/origins?offset={offset}"
        found = await asked(self._caller, path)
        return {int(origin): following for origin, following in found["next"].items()}

    def close(self) -> None:
        """Hang up."""
        self._caller.close()


async def find_place(caller: Caller, topic: str, index: int, known: Mapping[int, int]) -> int:
    """Return from which offset on a partition may have something new for who knows so much."""
    body = msgspec.json.encode({str(origin): offset for origin, offset in known.items()})
    return int((await posted(caller, f"{partition_path(topic, index)}/place", body))["offset"])


async def committed(caller: Caller, group: str) -> dict[Place, int]:
    """Return how far a group is; nothing for one that is not there."""
    try:
        found = await asked(caller, f"/v1/groups/{quote(group, safe='')}/lag")
    except Refused:
        return {}
    return {(row["topic"], row["partition"]): row["committed"] for row in found["partitions"]}


def partition_path(topic: str, index: int) -> str:
    """Return where a partition is found over HTTP."""
    return f"/v1/topics/{topic}/partitions/{index}"

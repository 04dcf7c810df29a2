"""Where a mirror's pipes end: a partition of a cluster far away, filled over HTTP."""

from chordmq.topology.calling import ANSWER_S, Caller, asked, posted
from chordmq.topology.upstream import partition_path

OCTETS = "application/octet-stream"


class Outlet:
    """One partition; the cluster itself says what it has, and leaves out what comes again."""

    is_leader = True

    def __init__(self, caller: Caller, topic: str, index: int) -> None:
        self.topic, self.index = topic, index
        self.records = 0
        self.repeated = 0
        self._caller = caller
        self._path = partition_path(topic, index)

    async def known(self) -> dict[int, int]:
        """Return what is there of each origin: the offset that comes next."""
        found = await asked(self._caller, f"{self._path}/origins")
        return {int(origin): offset for origin, offset in found["next"].items()}

    async def take(self, source: int, body: bytearray) -> int:
        """Have what is new of a source's batches appended; return how many records that were."""
        if not body:
            return 0
        path = f"{self._path}/batches?source={source}"
        answer = await posted(self._caller, path, bytes(body), OCTETS, timeout_s=2 * ANSWER_S)
        self.records += answer["copied"]
        self.repeated += answer["repeated"]
        return int(answer["copied"])

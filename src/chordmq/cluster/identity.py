"""Who the cluster is, and which producer ids its brokers have given away."""

from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Put, StoreConflict, unchanged
from chordmq.cluster.state import (
    CLUSTER,
    PRODUCER_IDS,
    ClusterIdentity,
    ProducerIds,
    decode,
    encode,
)

PRODUCER_ID_BLOCK = 1000


class Identity:
    """The cluster id, made once, and blocks of producer ids that are never given twice."""

    def __init__(self, image: Image, broker: int) -> None:
        self._image = image
        self._broker = broker
        entry = image.get(CLUSTER)
        assert entry is not None, "a store is founded before it is used"
        self.cluster_id = decode(entry, ClusterIdentity).id

    async def take_producer_ids(self) -> range:
        """Reserve a block of producer ids, durably."""
        entry = self._image.get(PRODUCER_IDS)
        while True:
            start = decode(entry, ProducerIds).next if entry else 0
            taken = ProducerIds(next=start + PRODUCER_ID_BLOCK, by=self._broker)
            try:
                await self._image.commit(
                    [unchanged(PRODUCER_IDS, entry)], [Put(PRODUCER_IDS, encode(taken))]
                )
            except StoreConflict:  # another broker has taken that block
                entry = await self._image.store.get(PRODUCER_IDS)
            else:
                return range(start, taken.next)

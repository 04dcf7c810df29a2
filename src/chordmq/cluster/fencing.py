"""Ends the lease of a node whose program has ended, so that nobody waits until it runs out.

Safety does not depend on it: a node that was wrongly taken for ended finds its lease lost, and
begins another.
"""

from chordmq.cluster.image import Image
from chordmq.cluster.state import live_key
from chordmq.errors import StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger

log = get_logger(__name__)


async def fence(image: Image, broker: int) -> None:
    """End a node's lease, and all that it holds with it: being alive, being the controller."""
    live = image.get(live_key(broker))
    if live is None or not live.lease:
        return
    try:
        await image.store.revoke(live.lease)
    except (StoreUnavailable, UnknownOutcome) as error:
        log.warning("the lease of a lost node runs on", broker=broker, reason=str(error))
    else:
        log.info("ended the lease of a node that is gone", broker=broker)

"""This broker's registration and lease: it lives in the eyes of the others while it can renew."""

import asyncio
import math
from collections.abc import Callable

from chordmq.clock import Clock
from chordmq.cluster.elections import Rules, elected, fenced
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import (
    Compare,
    Delete,
    LeaseLost,
    Put,
    StoreConflict,
    absent,
    present,
    unchanged,
)
from chordmq.cluster.state import (
    LIVE,
    PARTITIONS,
    BrokerRegistration,
    DiskTrust,
    Liveness,
    PartitionState,
    broker_key,
    broker_of,
    clean_key,
    decode,
    encode,
    live_key,
    partition_of,
)
from chordmq.dataclass import dataclass
from chordmq.errors import BrokerIdTaken, StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger

LEASE_MARGIN = 0.9
"""Of the lease's time in which this broker relies on it: clocks do not run alike."""
RETRY_DELAY_S = 0.25
GOODBYE_TIMEOUT_S = 3.0
"""How long a node that stops waits for a store that does not answer."""
ATTEMPTS = 20

RulesOf = Callable[[bytes], Rules]
"""Returns what a topic's settings say about its replicas, by its id."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """Who this broker is to the others."""

    broker: int
    registration: BrokerRegistration
    lease_s: float = 2.0


def compares_for(broker: int, epoch: int) -> list[Compare]:
    """Return the conditions under which a broker lives in this epoch."""
    return [Compare(broker_key(broker), revision=epoch), present(live_key(broker))]


class Registration:
    """Registers at each start, which gives the broker its epoch, and keeps its lease.

    A broker that comes back is first taken out of every in-sync set, and leads nothing, before it
    counts as living: it may lack what it had when it went.
    """

    def __init__(self, image: Image, standing: Standing, clock: Clock, rules: RulesOf) -> None:
        self.broker = standing.broker
        self.epoch = 0
        self.lease = 0
        self.until_s = -math.inf
        """Until when the others are sure to take this broker for living, on its own clock."""
        self.on_renewed: list[Callable[[float], None]] = []
        """Told that time at each renewal; minus infinity when the lease is lost."""
        self._image = image
        self._standing = standing
        self._clock = clock
        self._rules = rules
        self._is_leaving = False

    async def register(self, *, is_suspect: bool = False) -> None:
        """Take the broker's number for this start, and take it out of what it led and held.

        A suspect broker has reason to believe that its disk has lost records.
        """
        key, store, boot = broker_key(self.broker), self._image.store, self._boot
        before, entry = await store.get(key), await store.get(clean_key(self.broker))
        trust = DiskTrust() if entry is None else decode(entry, DiskTrust)
        lost = is_suspect
        if before is not None:
            old = decode(before, BrokerRegistration)
            if old.uuid != self._standing.registration.uuid:
                raise BrokerIdTaken(
                    f"node {self.broker} is registered with another data directory; choose another "
                    f"broker.node.id, or unregister the old node if it is gone for good"
                )
            lost |= trust.epoch != before.revision and trust.boot != boot
        put = Put(key, encode(self._standing.registration))
        self.epoch = await self._image.commit(
            [unchanged(key, before)], [put, Delete(live_key(self.broker))]
        )
        await self._image.refresh()
        await self._step_back(lost=lost)
        if trust.boot != boot:  # not before: a start that ends half-way must stay unclean
            await self._trust(DiskTrust(boot=boot))
        log.info("registered", broker=self.broker, epoch=self.epoch, unclean=lost)

    async def appear(self) -> None:
        """Begin a lease and count as living from now on."""
        began_s = self._clock.monotonic_s()
        self.lease = await self._image.store.grant(self._standing.lease_s)
        mine = Compare(broker_key(self.broker), revision=self.epoch)
        live = Put(live_key(self.broker), encode(Liveness(epoch=self.epoch)), self.lease)
        try:
            await self._image.commit([mine, absent(live.key)], [live])
        except StoreConflict:
            await self._refuse_double()
            await self._image.commit([mine], [live])
        self._rely(began_s + self._standing.lease_s * LEASE_MARGIN)

    async def run(self) -> None:
        """Keep the lease until cancelled; begin another when it is lost."""
        while True:
            await asyncio.sleep(self._standing.lease_s / 3)
            try:
                await self._renew()
            except (StoreUnavailable, UnknownOutcome) as error:
                log.warning("lease not renewed", reason=str(error))
                await asyncio.sleep(RETRY_DELAY_S)

    async def leave(self) -> None:
        """Hand leadership over and count as gone, so that clients go elsewhere at once."""
        self._is_leaving = True
        mine = Compare(broker_key(self.broker), revision=self.epoch)
        try:
            async with asyncio.timeout(GOODBYE_TIMEOUT_S):
                await self._image.commit([mine], [Delete(live_key(self.broker))])
                await self._step_back(lost=False)
        except (StoreConflict, StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            log.warning("leadership was not handed over", reason=str(error))

    async def end(self) -> None:
        """Say that all data of this epoch is on disk, and give the lease back."""
        try:
            async with asyncio.timeout(GOODBYE_TIMEOUT_S):
                await self._trust(DiskTrust(epoch=self.epoch, boot=self._boot))
                await self._image.store.revoke(self.lease)
        except (StoreConflict, StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            log.warning("the clean stop was not recorded", reason=str(error))

    @property
    def _boot(self) -> str:
        return self._standing.registration.boot

    async def _trust(self, trust: DiskTrust) -> None:
        mine = Compare(broker_key(self.broker), revision=self.epoch)
        await self._image.commit([mine], [Put(clean_key(self.broker), encode(trust))])

    async def _renew(self) -> None:
        began_s = self._clock.monotonic_s()
        try:
            ttl_s = await self._image.store.keep(self.lease)
        except LeaseLost:
            self._rely(-math.inf)
            if not self._is_leaving:
                log.warning("lease lost", broker=self.broker)
                await self._image.refresh()  # others may lead by now what this broker led
                await self.appear()
        else:
            self._rely(began_s + ttl_s * LEASE_MARGIN)

    def _rely(self, until_s: float) -> None:
        self.until_s = until_s
        for listener in self.on_renewed:
            listener(until_s)

    async def _refuse_double(self) -> None:
        entry = await self._image.store.get(broker_key(self.broker))
        if entry is None or entry.revision != self.epoch:
            raise BrokerIdTaken(f"node {self.broker} was unregistered, or started elsewhere")

    async def _step_back(self, *, lost: bool) -> None:
        """Take this broker out of every in-sync set, and let others lead what it led."""
        for _ in range(ATTEMPTS):
            puts = self._without_me(lost=lost)
            if not puts:
                return
            try:
                await self._commit(puts)
            except StoreConflict:
                await self._refuse_double()
                await self._image.refresh()
        raise StoreUnavailable(f"node {self.broker} could not be taken out of its partitions")

    async def _commit(self, puts: dict[str, tuple[int, PartitionState]]) -> None:
        size, keys = self._image.store.operations_max, list(puts)
        mine = Compare(broker_key(self.broker), revision=self.epoch)
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            compares = [mine, *(Compare(key, revision=puts[key][0]) for key in some)]
            await self._image.commit(compares, [Put(key, encode(puts[key][1])) for key in some])

    def _without_me(self, *, lost: bool) -> dict[str, tuple[int, PartitionState]]:
        live = {broker_of(entry.key) for entry in self._image.under(LIVE)} - {self.broker}
        puts = {}
        for entry in self._image.under(PARTITIONS):
            state = decode(entry, PartitionState)
            rules = self._rules(partition_of(entry.key)[0])
            changed = fenced(state, self.broker, rules, lost=lost)
            if changed != state:
                puts[entry.key] = (entry.revision, elected(changed, live, rules))
        return puts

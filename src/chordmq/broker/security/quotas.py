"""How much each user, client id and address may do, and how long it waits if that is more.

A limit is a bucket that fills at the limit's rate and holds one second's worth. Whoever takes more
than is there gets it and waits until the bucket would be full enough; so the rate holds however
large the pieces are. Nothing here reads a clock.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRequest

DEFAULT = "<default>"
"""As a user or client id: each one that has no limit of its own."""
BURST_S = 1.0
THROTTLE_MAX_S = 60.0
CACHE_SIZE_MAX = 100_000


class Limit(StrEnum):
    """What is limited, by Kafka's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


OF_CLIENTS = (Limit.PRODUCE, Limit.FETCH, Limit.REQUEST, Limit.MUTATION)
"""The limits of users and client ids; the other one is for addresses."""
WHOLE = (Limit.PRODUCE, Limit.FETCH, Limit.CONNECTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Whom a limit is for; an empty part is not looked at."""

    user: str = ""
    client: str = ""
    ip: str = ""
    """An address; only how often clients may connect from there can be limited."""


class Bucket:
    """One limit of one client, in bytes, seconds of work, partitions or connections."""

    __slots__ = ("_at_s", "_level", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._level = rate * BURST_S
        self._at_s = now_s

    def charge(self, amount: float, now_s: float) -> float:
        """Take an amount; return for how many seconds to wait before the next."""
        grown = self._level + max(0.0, now_s - self._at_s) * self.rate
        self._level = min(grown, self.rate * BURST_S) - amount
        self._at_s = now_s
        return min(THROTTLE_MAX_S, max(0.0, -self._level / self.rate))

    def take_one(self, now_s: float) -> float:
        """Take one if there is one; else take nothing, and return for how many seconds to wait."""
        if not self.rate:
            return THROTTLE_MAX_S
        self.charge(0, now_s)
        if self._level < 1:
            return min(THROTTLE_MAX_S, (1 - self._level) / self.rate)
        self._level -= 1
        return 0.0


@dataclass(frozen=True, slots=True)
class Buckets:
    """The limits that one client is under; None where there is none."""

    produce: Bucket | None = None
    fetch: Bucket | None = None
    request: Bucket | None = None
    mutation: Bucket | None = None


UNLIMITED = Buckets()
# A share of the event loop's time is stated in percent and counted in seconds.
_SCALES = {Limit.REQUEST: 0.01}


class Quotas:
    """All limits, and the buckets of those who are under one."""

    def __init__(self) -> None:
        self.limits: dict[Entity, dict[Limit, float]] = {}
        """By whom they are for; empty as long as nobody is under one."""
        self._buckets: dict[tuple[Limit, str, str], Bucket] = {}
        self._found: dict[tuple[str, str], Buckets] = {}

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[Limit, float]]]:
        return iter(self.limits.items())

    def __bool__(self) -> bool:
        return bool(self.limits)

    def get(self, entity: Entity) -> Mapping[Limit, float]:
        """Return the limits set for exactly this user and client id."""
        return self.limits.get(entity, {})

    def put(self, entity: Entity, limits: Mapping[Limit, float]) -> None:
        """Replace the limits of an entity; those who are under one begin with a full bucket."""
        check(entity, limits)
        if limits:
            self.limits[entity] = dict(limits)
        else:
            self.limits.pop(entity, None)
        self._forget()

    def buckets(self, user: str, client: str, now_s: float) -> Buckets:
        """Return what limits this client."""
        if not self.limits:
            return UNLIMITED
        found = self._found.get((user, client))
        if found is None:
            if len(self._found) >= CACHE_SIZE_MAX:
                self._forget()
            found = Buckets(*(self._bucket(limit, user, client, now_s) for limit in OF_CLIENTS))
            self._found[user, client] = found
        return found

    def connection_wait_s(self, address: str, now_s: float) -> float:
        """Count a connection from an address; return for how long there may be no more."""
        if not self.limits:
            return 0.0
        key = (Limit.CONNECTION, address, "")
        bucket = self._buckets.get(key)
        if bucket is None:
            for name in (address, DEFAULT):
                rate = self.get(Entity(ip=name)).get(Limit.CONNECTION)
                if rate is not None:
                    break
            else:
                return 0.0
            if len(self._buckets) >= CACHE_SIZE_MAX:
                self._forget()
            bucket = self._buckets[key] = Bucket(rate, now_s)
        return bucket.take_one(now_s)

    def _bucket(self, limit: Limit, user: str, client: str, now_s: float) -> Bucket | None:
        for entity in precedence(user, client):
            rate = self.limits.get(entity, {}).get(limit)
            if rate is not None:
                # All connections that the limit does not tell apart share one bucket.
                key = (limit, user if entity.user else "", client if entity.client else "")
                if key not in self._buckets:
                    self._buckets[key] = Bucket(rate * _SCALES.get(limit, 1.0), now_s)
                return self._buckets[key]
        return None

    def _forget(self) -> None:
        self._found.clear()
        self._buckets.clear()


def precedence(user: str, client: str) -> Iterator[Entity]:
    """Yield the entities whose limit may apply, the strongest first, in Kafka's order."""
    clients = (client, DEFAULT) if client else (DEFAULT,)
    for one in (user, DEFAULT):
        for name in clients:
            yield Entity(user=one, client=name)
        yield Entity(user=one)
    for name in clients:
        yield Entity(client=name)


def check(entity: Entity, limits: Mapping[Limit, float]) -> None:
    """Raise InvalidRequest for limits that make no sense."""
    if entity == Entity():
        raise InvalidRequest("A quota is for a user, a client id, or both; or for an address.")
    if entity.ip:
        _check_address(entity)
    for limit, value in limits.items():
        if (limit is Limit.CONNECTION) != bool(entity.ip):
            raise InvalidRequest(
                f"{limit} is not a limit of {'an address' if entity.ip else 'a user or client id'}."
            )
        is_low = value <= 0 if limit is not Limit.CONNECTION else value < 0
        if is_low or not value < float("inf"):
            raise InvalidRequest(f"{limit} must be a number above 0, not {value}.")
        if limit in WHOLE and value != int(value):
            raise InvalidRequest(f"{limit} must be a whole number.")


def _check_address(entity: Entity) -> None:
    if entity.user or entity.client:
        raise InvalidRequest("A quota of an address cannot be one of a user or client id as well.")
    if entity.ip == DEFAULT:
        return
    from ipaddress import ip_address

    try:
        is_plain = str(ip_address(entity.ip)) == entity.ip
    except ValueError:
        is_plain = False
    if not is_plain:
        raise InvalidRequest(f"{entity.ip!r} is not an address, as 10.0.0.1 or fe80::1 are.")

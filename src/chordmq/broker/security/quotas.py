"""How much each user and client id may send, receive and ask for, and how long it waits if more.

A limit is a bucket that fills at the limit's rate and holds one second's worth. Whoever takes more
than is there gets it and waits until the bucket would be full enough; so the rate holds however
large the pieces are. Nothing here reads a clock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Whom a limit is for; an empty part is not looked at."""

    user: str = ""
    client: str = ""


class Bucket:
    """One limit of one client, in bytes, seconds of work or partitions."""

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
        self._limits: dict[Entity, dict[Limit, float]] = {}
        self._buckets: dict[tuple[Limit, str, str], Bucket] = {}
        self._found: dict[tuple[str, str], Buckets] = {}

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[Limit, float]]]:
        return iter(self._limits.items())

    def __bool__(self) -> bool:
        return bool(self._limits)

    def get(self, entity: Entity) -> Mapping[Limit, float]:
        """Return the limits set for exactly this user and client id."""
        return self._limits.get(entity, {})

    def put(self, entity: Entity, limits: Mapping[Limit, float]) -> None:
        """Replace the limits of an entity; those who are under one begin with a full bucket."""
        check(entity, limits)
        if limits:
            self._limits[entity] = dict(limits)
        else:
            self._limits.pop(entity, None)
        self._forget()

    def buckets(self, user: str, client: str, now_s: float) -> Buckets:
        """Return what limits this client."""
        if not self._limits:
            return UNLIMITED
        found = self._found.get((user, client))
        if found is None:
            if len(self._found) >= CACHE_SIZE_MAX:
                self._forget()
            found = Buckets(*(self._bucket(limit, user, client, now_s) for limit in Limit))
            self._found[user, client] = found
        return found

    def _bucket(self, limit: Limit, user: str, client: str, now_s: float) -> Bucket | None:
        for entity in precedence(user, client):
            rate = self._limits.get(entity, {}).get(limit)
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
        raise InvalidRequest("A quota is for a user, a client id, or both.")
    for limit, value in limits.items():
        if not 0 < value < float("inf"):
            raise InvalidRequest(f"{limit} must be a number above 0, not {value}.")
        if limit in (Limit.PRODUCE, Limit.FETCH) and value != int(value):
            raise InvalidRequest(f"{limit} must be a whole number.")

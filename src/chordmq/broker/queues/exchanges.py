"""Exchanges and bindings: which queues a message goes to, now or as it was at an earlier time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from chordmq.dataclass import dataclass

Headers = Mapping[str, Any]

DEFAULT = ""
TYPES = ("direct", "fanout", "topic", "headers")
PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
FOREVER = 2**63 - 1
ROUTES_MAX = 10_000
ALTERNATE = "alternate-exchange"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One exchange as it was declared."""

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    since: int = 0
    """The stamp of its declaration."""
    until: int = FOREVER
    """The stamp of its end."""

    @property
    def alternate(self) -> str | None:
        """Return the exchange that gets what this one cannot route."""
        found = self.arguments.get(ALTERNATE)
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What leads from an exchange to a queue or to another exchange, and from when to when."""

    source: str
    destination: str
    to_queue: bool
    key: str = ""
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    since: int = 0
    until: int = FOREVER

    def is_same(self, other: "Binding") -> bool:
        """Return whether both lead the same way."""
        return (self.source, self.destination, self.to_queue, self.key, self.arguments) == (
            other.source,
            other.destination,
            other.to_queue,
            other.key,
            other.arguments,
        )


class Exchanges:
    """The exchanges of one virtual host, and what is bound to them.

    A message carries the stamp of the moment when it was published. Bindings that were removed
    later still count for it, those that were added later do not.
    """

    def __init__(self) -> None:
        self._exchanges = {
            name: Exchange(name=name, type=kind, durable=True) for name, kind in PREDECLARED.items()
        }
        self._ended: dict[str, list[Exchange]] = {}
        self._bindings: dict[str, list[Binding]] = {}
        self._retired: dict[str, list[Binding]] = {}
        self._routes: dict[tuple[str, str], tuple[str, ...]] = {}
        self.changed = 0
        """The stamp of the newest change."""

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._exchanges.values()))

    def find(self, name: str) -> Exchange | None:
        """Return the exchange, or None; the default one has no entry."""
        return self._exchanges.get(name)

    def find_at(self, name: str, stamp: int) -> Exchange | None:
        """Return the exchange of a name at the time of a stamp, or None."""
        found = (*self._ended.get(name, ()), *filter(None, (self._exchanges.get(name),)))
        return next((one for one in found if one.since <= stamp < one.until), None)

    def add(self, exchange: Exchange) -> None:
        """Put in an exchange, or one that has ended and still counts for older messages."""
        if exchange.until == FOREVER:
            self._exchanges[exchange.name] = exchange
        else:
            self._ended.setdefault(exchange.name, []).append(exchange)
        self._touch(_newest(exchange))

    def remove(self, name: str, stamp: int) -> list[Binding]:
        """Take out an exchange with its bindings, and return these."""
        del self._exchanges[name]
        gone = [one for one in self.bindings() if name in (one.source, _exchange(one))]
        for binding in gone:
            self.unbind(binding, stamp)
        self._touch(stamp)
        return gone

    def bindings(self) -> list[Binding]:
        """Return all bindings in force."""
        return [one for bindings in self._bindings.values() for one in bindings]

    def bindings_from(self, source: str) -> list[Binding]:
        """Return the bindings of an exchange."""
        return list(self._bindings.get(source, ()))

    def bindings_to(self, queue: str) -> list[Binding]:
        """Return the bindings of a queue."""
        return [one for one in self.bindings() if one.to_queue and one.destination == queue]

    def find_binding(self, wanted: Binding) -> Binding | None:
        """Return the binding in force that leads the same way, or None."""
        for binding in self._bindings.get(wanted.source, ()):
            if binding.is_same(wanted):
                return binding
        return None

    def bind(self, binding: Binding) -> None:
        """Put in a binding, or one that has ended and still counts for older messages."""
        bindings = self._bindings if binding.until == FOREVER else self._retired
        bindings.setdefault(binding.source, []).append(binding)
        self._touch(_newest(binding))

    def unbind(self, binding: Binding, stamp: int) -> None:
        """Take a binding out of force."""
        self._bindings[binding.source].remove(binding)
        if not self._bindings[binding.source]:
            del self._bindings[binding.source]
        self._touch(stamp)

    def forget(self, ended: Binding | Exchange) -> None:
        """Drop what has ended and no message needs any more."""
        if isinstance(ended, Exchange):
            self._ended[ended.name].remove(ended)
        else:
            self._retired[ended.source].remove(ended)

    def retired(self) -> list[Binding]:
        """Return the bindings that have ended and still count for older messages."""
        return [one for bindings in self._retired.values() for one in bindings]

    def ended(self) -> list[Exchange]:
        """Return the exchanges that have ended and still count for older messages."""
        return [one for exchanges in self._ended.values() for one in exchanges]

    def _touch(self, stamp: int) -> None:
        self.changed = max(self.changed, stamp)
        self._routes.clear()

    def route(self, exchange: str, key: str, headers: Headers) -> tuple[str, ...]:
        """Return the queues that a message published now goes to, each once."""
        found = self._routes.get((exchange, key))
        if found is not None:
            return found
        walk = _Walk(self, key, headers, None)
        found = tuple(walk.queues(exchange))
        if not walk.looks_at_headers:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[exchange, key] = found
        return found

    def route_at(self, stamp: int, exchange: str, key: str, headers: Headers) -> tuple[str, ...]:
        """Return the queues that a message went to when it was published."""
        if stamp >= self.changed:
            return self.route(exchange, key, headers)
        return tuple(_Walk(self, key, headers, stamp).queues(exchange))

    def in_force(self, source: str, stamp: int | None) -> Iterable[Binding]:
        """Return an exchange's bindings, now or at the time of a stamp."""
        bindings = self._bindings.get(source, [])
        if stamp is None:
            return bindings
        both = (*bindings, *self._retired.get(source, ()))
        return [one for one in both if one.since <= stamp < one.until]

    def reaches(self, binding: Binding) -> set[str]:
        """Return the queues that messages may come to over a binding."""
        if binding.to_queue:
            return {binding.destination}
        found: set[str] = set()
        seen: set[str] = set()
        ahead = [binding.destination]
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            exchange = self._exchanges.get(name)
            if exchange is not None and exchange.alternate:
                ahead.append(exchange.alternate)
            for one in self._bindings.get(name, ()):
                if one.to_queue:
                    found.add(one.destination)
                else:
                    ahead.append(one.destination)
        return found


class _Walk:
    """One message on its way through the exchanges."""

    def __init__(self, all_: Exchanges, key: str, headers: Headers, stamp: int | None) -> None:
        self._all = all_
        self._key = key
        self._headers = headers
        self._stamp = stamp
        self.looks_at_headers = False

    def queues(self, start: str) -> dict[str, None]:
        """Return the queues in the order in which they are reached."""
        found: dict[str, None] = {}
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            if name == DEFAULT:
                found[self._key] = None
                continue
            stamp = self._stamp
            exchange = self._all.find(name) if stamp is None else self._all.find_at(name, stamp)
            if exchange is None:
                continue
            matched = [
                one for one in self._all.in_force(name, self._stamp) if self._fits(exchange, one)
            ]
            for binding in matched:
                if binding.to_queue:
                    found[binding.destination] = None
                else:
                    ahead.append(binding.destination)
            if not matched and exchange.alternate is not None:
                ahead.append(exchange.alternate)
        return found

    def _fits(self, exchange: Exchange, binding: Binding) -> bool:
        if exchange.type == "fanout":
            return True
        if exchange.type == "direct":
            return binding.key == self._key
        if exchange.type == "topic":
            return topic_matches(binding.key, self._key)
        self.looks_at_headers = True
        return headers_match(binding.arguments, self._headers)


def topic_matches(pattern: str, key: str) -> bool:
    """Return whether a pattern with `*` (one word) and `#` (any number of words) fits a key."""
    if "*" not in pattern and "#" not in pattern:
        return pattern == key
    wanted, words = _words(pattern), _words(key)
    at = word = 0
    hash_at, hash_word = -1, 0
    while word < len(words):
        if at < len(wanted) and wanted[at] == "#":
            hash_at, hash_word = at, word
            at += 1
        elif at < len(wanted) and wanted[at] in ("*", words[word]):
            at += 1
            word += 1
        elif hash_at >= 0:  # let the last hash take one word more
            hash_word += 1
            at, word = hash_at + 1, hash_word
        else:
            return False
    return all(rest == "#" for rest in wanted[at:])


def _words(text: str) -> list[str]:
    return text.split(".") if text else []


def headers_match(arguments: Headers, headers: Headers) -> bool:
    """Return whether a message's headers are as a binding wants them."""
    mode = arguments.get("x-match", "all")
    with_x = mode in ("all-with-x", "any-with-x")
    wanted = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    }
    fits = (
        name in headers and (value is None or headers[name] == value)
        for name, value in wanted.items()
    )
    return any(fits) if mode in ("any", "any-with-x") else all(fits)


def _newest(one: Exchange | Binding) -> int:
    """Return the stamp of the last change that something tells of."""
    return one.since if one.until == FOREVER else one.until


def _exchange(binding: Binding) -> str | None:
    return None if binding.to_queue else binding.destination

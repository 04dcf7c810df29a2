"""One virtual host: its exchanges and queues by name, and who gets what is published."""

from chordmq.broker.queues.exchanges import DEFAULT, Binding, Exchange, Exchanges
from chordmq.broker.queues.follower import Routing
from chordmq.broker.queues.places import (
    ROOT,
    TRANSIENT,
    foreign_envelope,
    hierarchical_key,
    routing_key,
    topic_name,
)
from chordmq.broker.queues.queue import Queue
from chordmq.codecs.amqp.content import Envelope
from chordmq.errors import InvalidRequest, QueueLocked, UnknownExchange, UnknownQueue
from chordmq.records.record import Record

HIERARCHICAL = "amq.topic"
"""The exchange whose routing keys are names with levels, which MQTT and others share."""


class VirtualHost:
    """Exchanges and queues that share a space of names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges = Exchanges()
        self.queues: dict[str, Queue] = {}
        self.has_hierarchy = name == ROOT
        """Whether `amq.topic` shares its names with other fronts; prefixes keep others apart."""
        self._topics: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def topic(self, name: str) -> str:
        """Return the log topic of an exchange's or queue's name."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = topic_name(self.name, name)
            self._names[found] = name
        return found

    def topic_if_known(self, name: str) -> str:
        """Return the log topic that a name would have."""
        return topic_name(self.name, name)

    def keeps(self, binding: Binding) -> bool:
        """Return whether a binding outlives the node: both of its ends do."""
        source = self.exchanges.find(binding.source)
        if source is None or not source.durable:
            return False
        if binding.to_queue:
            queue = self.queues.get(binding.destination)
            return queue is not None and queue.facts.durable and not queue.facts.exclusive
        target = self.exchanges.find(binding.destination)
        return target is not None and target.durable

    def forget(self, name: str) -> None:
        """Drop the topic of a name that neither an exchange nor a queue has any more."""
        if self.exchanges.find(name) is None and name not in self.queues:
            self._names.pop(self._topics.pop(name, ""), None)

    @property
    def topics(self) -> set[str]:
        """Return the log topics in which there may be messages for queues."""
        names = {one.name for one in self.exchanges if one.durable}
        names |= {name for name, queue in self.queues.items() if queue.facts.durable}
        return {TRANSIENT, *map(self.topic, names)}

    def exchange(self, name: str) -> Exchange:
        """Return the exchange, or raise UnknownExchange."""
        found = self.exchanges.find(name)
        if found is None:
            raise UnknownExchange(f"no exchange '{name}' in vhost '{self.name}'")
        return found

    def queue(self, name: str, connection: object = None) -> Queue:
        """Return a queue; raise UnknownQueue, or QueueLocked if it is another connection's."""
        found = self.queues.get(name)
        if found is None:
            raise UnknownQueue(f"no queue '{name}' in vhost '{self.name}'")
        if found.owner is not None and found.owner is not connection:
            raise QueueLocked(
                f"queue '{name}' in vhost '{self.name}' is exclusive to another connection"
            )
        return found

    def place(self, exchange: Exchange | None, key: str) -> str | None:
        """Return the topic of what is published; None for a queue that there is not."""
        if exchange is not None:
            return self.topic(exchange.name) if exchange.durable else TRANSIENT
        queue = self.queues.get(key)
        if queue is None:
            return None
        return self.topic(key) if queue.facts.durable else TRANSIENT

    def targets(self, envelope: Envelope, stamp: int | None = None) -> list[Queue]:
        """Return the queues that a message goes to, or went to when it was published."""
        exchanges, queues, properties = self.exchanges, self.queues, envelope.properties
        headers = properties.headers
        found: dict[str, None] = {}
        keys = (envelope.key, *properties.keys) if headers else (envelope.key,)
        for key in keys:
            if envelope.exchange == DEFAULT:
                found[key] = None
            elif stamp is None:
                found.update(dict.fromkeys(exchanges.route(envelope.exchange, key, headers)))
            else:
                names = exchanges.route_at(stamp, envelope.exchange, key, headers)
                found.update(dict.fromkeys(names))
        return [queues[name] for name in found if name in queues]

    def foreign(self, topic: str, record: Record, now_ms: int) -> Routing | None:
        """Return another front's record as a message of this virtual host's, if a queue wants it.

        A record of a topic is one that was published to the exchange of that name with its key; the
        queue of that name gets it too. If neither is there, `amq.topic` gets it by its name.
        """
        found: dict[str, None] = {}
        exchange, key = topic, routing_key(record)
        headers = {name: _text(value) for name, value in record.headers}
        name = self._names.get(topic, "")
        if self.exchanges.find(name) is not None:
            exchange = name
            found.update(dict.fromkeys(self.exchanges.route(name, key, headers)))
        if name in self.queues:
            exchange = name
            found[name] = None
        if self.has_hierarchy and self.exchanges.bindings_from(HIERARCHICAL):
            hierarchical = hierarchical_key(topic, record)
            if hierarchical is not None:
                names = self.exchanges.route(HIERARCHICAL, hierarchical, headers)
                if names and not found:
                    exchange, key = HIERARCHICAL, hierarchical
                found.update(dict.fromkeys(names))
        wanting = [self.queues[one] for one in found if one in self.queues]
        queues = [one for one in wanting if one.own_topic != topic]
        if not queues:
            return None
        envelope = foreign_envelope(self.name, exchange, key, record)
        return Routing(envelope, now_ms, queues)


def check_name(name: str, what: str) -> None:
    """Raise InvalidRequest for a name that is the broker's to give."""
    if name.startswith("amq."):
        raise InvalidRequest(f"{what} names that begin with 'amq.' are the broker's own")


def _text(value: bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value

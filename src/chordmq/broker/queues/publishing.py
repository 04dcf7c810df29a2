"""Puts messages into the topics of their exchanges, each once, however many queues get it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from chordmq.broker.appends import Appends
from chordmq.broker.internal_log import Host, copies_of
from chordmq.broker.names import NAME_HEADER, Destination, Names
from chordmq.broker.partition import Partition
from chordmq.broker.queues.definitions import Made, Stored, topic_entry
from chordmq.broker.queues.exchanges import DEFAULT
from chordmq.broker.queues.places import (
    EXCEPT_HEADER,
    TRANSIENT,
    name_of_key,
    record_key,
    record_time,
    visible_headers,
)
from chordmq.broker.queues.virtual_host import HIERARCHICAL, VirtualHost
from chordmq.broker.topic import Topic, check_name
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.amqp.content import HEADER_NAME, Envelope, write_envelope
from chordmq.codecs.amqp1.sections import KEPT_HEADER
from chordmq.errors import InvalidTopicName, TopicExists, UnknownTopic
from chordmq.records.record import Headers, NewRecord

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
_ROOM = {"max.message.bytes": str(MESSAGE_BYTES_MAX + 1024 * 1024)}
TRANSIENT_SETTINGS = {"retention.ms": "600000", "flush": "os", **_ROOM}
KEPT_SETTINGS = {"retention.ms": "-1", **_ROOM}
"""Retention must not take what a queue still holds; `Queues.trim` looks after these topics."""


class Publishing:
    """Says where messages go, makes topics for them, and stamps them with their time."""

    def __init__(
        self,
        host: Host,
        appends: Appends,
        store: Callable[[Sequence[Stored]], Awaitable[None]],
    ) -> None:
        self._host = host
        self.names = Names()
        self.appends = appends
        self._store = store
        self._stamp = 0
        self.made: set[str] = set()
        """Topics that were made for exchanges and queues."""

    def begin_after(self, stamp: int) -> None:
        """Give no stamp that is not greater."""
        self._stamp = max(self._stamp, stamp + 1)

    def stamp(self) -> int:
        """Return the time, as far as messages and bindings are concerned; it never goes back."""
        self._stamp = max(self._stamp, self._host.clock.now_ms())
        return self._stamp

    def next_stamp(self) -> int:
        """Return a stamp for a change, after all messages that were published before it."""
        self._stamp = max(self._stamp + 1, self._host.clock.now_ms())
        return self._stamp

    def topic_of(self, vhost: VirtualHost, envelope: Envelope) -> str | None:
        """Return the log topic of a message; None if it can go nowhere."""
        named = self._named(vhost, envelope)
        if named is not None:
            return named.topic
        if envelope.exchange != DEFAULT:
            return vhost.place(vhost.exchange(envelope.exchange), envelope.key)
        place = vhost.place(None, envelope.key)
        if place is None:
            # Not a queue, but a topic that another front may read.
            topic = self._host.topics.find(vhost.topic_if_known(envelope.key))
            return topic.name if topic is not None and not topic.is_internal else None
        return place

    def may_lie_in(self, topic: str, vhost: VirtualHost, envelope: Envelope) -> bool:
        """Return whether a topic is one that such a message goes to, or went to.

        Clients cannot write to the transient one; a queue or exchange may be gone meanwhile.
        """
        if topic == TRANSIENT or topic == vhost.topic_if_known(envelope.exchange or envelope.key):
            return True
        named = self._named(vhost, envelope)
        return named is not None and topic == named.topic

    def _named(self, vhost: VirtualHost, envelope: Envelope) -> Destination | None:
        """Return where a message of `amq.topic` goes, whose routing key is a name with levels."""
        if envelope.exchange != HIERARCHICAL or not vhost.has_hierarchy:
            return None
        try:
            found = self.names.destination(name_of_key(envelope.key))
            check_name(found.topic)
        except InvalidTopicName:
            return None
        return None if found.topic.startswith("__") else found

    def partition_of(self, vhost: VirtualHost, topic: Topic, envelope: Envelope) -> Partition:
        """Return the partition of a message: that of its key, as Kafka's clients choose it."""
        partitions = topic.partitions
        if len(partitions) == 1:
            return partitions[0]
        key = self.key_of(vhost, envelope) or envelope.key.encode()
        return partitions[partition_for_key(key, len(partitions))]

    def key_of(self, vhost: VirtualHost, envelope: Envelope) -> bytes | None:
        """Return the key of a message's record."""
        named = self._named(vhost, envelope)
        if named is not None:
            return named.key
        return record_key(envelope.exchange, envelope.key, envelope.properties)

    def headers_of(self, stamp: int, envelope: Envelope, without: Sequence[str] = ()) -> Headers:
        """Return the headers of a message's record."""
        headers: Headers = ((HEADER_NAME, write_envelope(stamp, envelope)),)
        if without:
            headers += ((EXCEPT_HEADER, "\n".join(without).encode()),)
        if envelope.sections:
            headers += ((KEPT_HEADER, envelope.sections),)
        if envelope.exchange == HIERARCHICAL:
            headers += ((NAME_HEADER, name_of_key(envelope.key).encode()),)
        return headers + visible_headers(envelope.properties)

    async def ensure(
        self, vhost: VirtualHost, name: str, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Topic:
        """Return a topic; make it with one partition, so that order holds, if it is not there."""
        topic = self._host.topics.find(name)
        if topic is not None:
            return topic
        if name not in vhost.topics:  # that of a name with levels, which is nobody's own
            return await self._host.topics.ensure(name)
        wanted = TRANSIENT_SETTINGS if name == TRANSIENT else {**KEPT_SETTINGS, **settings}
        if name not in self.made:
            await self._store([topic_entry(name, Made(name))])
            self.made.add(name)
        try:
            return await self._host.topics.create(name, 1, copies_of(self._host.topics), wanted)
        except TopicExists:  # somebody else asked for it a moment earlier
            return self._host.topics.get(name)

    async def remove(self, name: str) -> None:
        """Delete a topic that was made here."""
        self.made.discard(name)
        try:
            await self._host.topics.delete(name)
        except UnknownTopic:
            pass
        await self._store([topic_entry(name, None)])

    def record(
        self, vhost: VirtualHost, envelope: Envelope, body: bytes, without: Sequence[str] = ()
    ) -> NewRecord:
        """Return a message as a record."""
        return NewRecord(
            record_time(envelope.properties, self._host.clock.now_ms()),
            self.key_of(vhost, envelope),
            body,
            self.headers_of(self.stamp(), envelope, without),
        )

    async def publish(
        self, vhost: VirtualHost, envelope: Envelope, body: bytes, without: Sequence[str] = ()
    ) -> None:
        """Publish one message, and return when it is committed."""
        name = self.topic_of(vhost, envelope)
        if name is None:
            return
        topic = await self.ensure(vhost, name)
        record = self.record(vhost, envelope, body, without)
        await self.appends.append(self.partition_of(vhost, topic, envelope), [record])

"""Where a message goes: the partition, key and headers of its record, and who gets it."""

from collections.abc import Callable
from typing import NamedTuple

from chordmq.broker.partition import Partition
from chordmq.broker.queues.exchanges import DEFAULT
from chordmq.broker.queues.places import (
    TRANSIENT,
    is_null,
    is_plain,
    record_time,
    visible_headers,
)
from chordmq.broker.queues.publishing import Publishing
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.codecs.amqp.content import Envelope
from chordmq.errors import PolicyViolation
from chordmq.records.record import Headers


class Plan(NamedTuple):
    """Where messages of one exchange, routing key and set of properties go."""

    partition: Partition | None
    key: bytes | None
    headers: Headers
    time_ms: int
    envelope: Envelope
    is_routed: bool
    """Whether any queue gets them."""
    limited: tuple[Queue, ...] = ()
    """Queues that refuse messages when they are full."""
    is_null: bool = False
    """Whether an empty body stands for no value at all."""

    @property
    def is_simple(self) -> bool:
        """Return whether messages go into the log without a look at each."""
        return self.partition is not None and not self.limited and not self.is_null

    def room(self, publishing: Publishing, vhost: VirtualHost) -> tuple[Headers | None, bool]:
        """Return the headers of a message some of whose queues may be full, and if any is.

        None if all are.
        """
        full = [queue.name for queue in self.limited if queue.is_full]
        if full and len(full) == len(vhost.targets(self.envelope)):
            return None, True
        for queue in self.limited:
            queue.announced += queue.name not in full
        if not full:
            return self.headers, False
        return publishing.headers_of(publishing.stamp(), self.envelope, full), True


async def make_plan(
    publishing: Publishing,
    vhost: VirtualHost,
    envelope: Envelope,
    check: Callable[[str], None],
    now_ms: int,
) -> Plan:
    """Return where messages like this go; `check` raises unless one may write to a topic."""
    exchange, properties = envelope.exchange, envelope.properties
    if exchange != DEFAULT and vhost.exchange(exchange).internal:
        raise PolicyViolation(f"exchange '{exchange}' is internal")
    name = publishing.topic_of(vhost, envelope)
    targets = vhost.targets(envelope)
    if name is None:
        return Plan(None, None, (), 0, envelope, bool(targets))
    owner = vhost.topic_if_known(exchange or envelope.key)
    check(owner if name == TRANSIENT else name)
    topic = await publishing.ensure(vhost, name)
    # What goes to a topic and to no queue needs no envelope, and looks like all other records.
    is_bare = exchange == DEFAULT and envelope.key not in vhost.queues
    if is_bare and not targets and is_plain(properties) and not envelope.sections:
        headers = visible_headers(properties)
    else:
        headers = publishing.headers_of(publishing.stamp(), envelope)
    return Plan(
        publishing.partition_of(vhost, topic, envelope),
        publishing.key_of(vhost, envelope),
        headers,
        record_time(properties, now_ms),
        envelope,
        bool(targets) or is_bare,
        tuple(queue for queue in targets if queue.rules.overflow != "drop-head"),
        is_null(properties),
    )

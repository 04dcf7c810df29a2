"""All queues and exchanges of the node: declared in a log, filled from topics."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from chordmq.broker.alarm import Alarm
from chordmq.broker.appends import Appends
from chordmq.broker.internal_log import InternalLog
from chordmq.broker.names import Names
from chordmq.broker.partition import Partition
from chordmq.broker.patience import Patience
from chordmq.broker.queues.arguments import check_alike
from chordmq.broker.queues.bodies import bring_back, load
from chordmq.broker.queues.burials import bury, has_grave
from chordmq.broker.queues.consumer import Consumer
from chordmq.broker.queues.definitions import (
    QUEUES_TOPIC,
    Held,
    Stored,
    binding_entry,
    ended_entry,
    exchange_entry,
    queue_entry,
)
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.exchanges import Binding, Exchange
from chordmq.broker.queues.follower import Routing
from chordmq.broker.queues.following import Following, QueueHost
from chordmq.broker.queues.image import Image
from chordmq.broker.queues.progress import Progress
from chordmq.broker.queues.publishing import Publishing
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.source import Source
from chordmq.broker.queues.streams import Stream, new_queue
from chordmq.broker.queues.trimming import forget_ended, trim
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.codecs.amqp.content import Envelope
from chordmq.errors import (
    ChordMQError,
    DeclaredOtherwise,
    PolicyViolation,
    UnknownQueue,
)
from chordmq.logs import get_logger
from chordmq.records.record import Record

log = get_logger(__name__)

TRIM_INTERVAL_S = 60.0
KEY = "queues"
UNUSED = "unused\0"


class Queues:
    """The virtual hosts, and one follower for each partition that queues get messages from."""

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        self.vhosts: dict[str, VirtualHost] = {}
        self._log: InternalLog[Stored] = InternalLog(host, QUEUES_TOPIC)
        self.on_unloaded: list[Callable[[], None]] = []
        """Called when another node looks after the queues from now on."""
        self._names: tuple[str, ...] = ()
        self.progress = Progress(self._log, self.routed, self._id_of)
        self.publishing = Publishing(host, Appends(Patience(host.clock)), self._write)
        self.following = Following(host, self)
        self._alarm = Alarm(host.clock, self._ring)
        self._tasks: asyncio.TaskGroup | None = None
        self._opened = asyncio.Event()
        self.loaded = asyncio.Event()
        """Set while the log is read, and this node looks after the queues."""

    def open(self, names: Names, vhosts: Sequence[str]) -> None:
        """Begin to serve; queues that nobody can come to are not looked at."""
        self.publishing.names = self.following.names = names
        self._names = tuple(vhosts)
        self.vhosts = {name: VirtualHost(name) for name in vhosts}
        self._opened.set()

    async def run(self) -> None:
        """Read the log while this node leads it, and serve, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._log.open(tasks)
            try:
                await self._opened.wait()
                tasks.create_task(self._log.serve(self._load, self._unload, self._ready))
                while True:
                    await asyncio.sleep(TRIM_INTERVAL_S)
                    if self.loaded.is_set():
                        await self.trim()
            finally:
                self._stop()
                self._log.close()

    def _stop(self) -> None:
        self.loaded.clear()
        self.progress.close()
        self.following.close()
        self._alarm.cancel()

    async def settle(self) -> None:
        """Store all that was acknowledged by now, so that a clean stop repeats nothing."""
        if self.loaded.is_set():
            await self._write(self.progress.take())

    def look_again(self) -> None:
        """Take note that topics may have come, or partitions changed their leader."""
        self._log.look_again()

    async def home(self) -> int | None:
        """Return the node that looks after the queues; None for this one."""
        return await self._log.home_of(KEY)

    def check(self) -> None:
        """Raise NotCoordinator, or CoordinatorLoading, unless this node looks after the queues."""
        if self._host.topics.find(QUEUES_TOPIC.name) is not None:
            self._log.check(KEY)

    async def _load(self, index: int) -> None:
        image = Image()
        async for batch in self._log.replay(index):
            for entry in batch.entries:
                image.replay(entry)
        self._begin_with(image)

    def _ready(self) -> None:
        if self._host.topics.is_alone and not self.loaded.is_set():
            self._begin_with(Image())  # it makes the log when there is something to keep

    def _begin_with(self, image: Image) -> None:
        for name in image.vhosts:
            self.vhosts.setdefault(name, VirtualHost(name))
        image.restore(self.vhosts, self._restored)
        self.publishing.made = image.made
        self.publishing.begin_after(max(one.exchanges.changed for one in self.vhosts.values()))
        self.following.recover(image)
        for queue in self:
            self.used(queue)
        self._host.topics.watchers.append(self.following.look_again)
        self.loaded.set()
        count = sum(len(vhost.queues) for vhost in self.vhosts.values())
        log.info("queues loaded", queues=count)

    def _unload(self, _: int) -> None:
        """Forget everything: another node looks after the queues, and reads what this has kept."""
        if not self.loaded.is_set():
            return
        log.info("queues handed over")
        self._host.topics.watchers.remove(self.following.look_again)
        self._stop()
        for queue in self:
            queue.is_deleted = True
        self.vhosts = {name: VirtualHost(name) for name in self._names}
        self.progress = Progress(self._log, self.routed, self._id_of)
        for watcher in self.on_unloaded:
            watcher()

    def _id_of(self, topic: str) -> bytes:
        return self._host.topics.get(topic).id

    def _restored(self, facts: QueueFacts) -> Queue:
        return new_queue(facts, self)

    # What followers ask.

    def published(self, topic: str, stamp: int, envelope: Envelope) -> list[Queue]:
        """Return the queues of a message that lies in a topic and says that it came over AMQP.

        It must lie where such messages go: nobody may forge those of another topic.
        """
        vhost = self.vhosts.get(envelope.vhost)
        if vhost is None or not self.publishing.may_lie_in(topic, vhost, envelope):
            return []
        targets = vhost.targets(envelope, stamp)
        return [one for one in targets if one.facts.since <= stamp and one.own_topic != topic]

    def foreign(self, topic: str, record: Record) -> Routing | None:
        """Return what another front's record is as a message; None if no queue wants it."""
        for vhost in self.vhosts.values():
            routing = vhost.foreign(topic, record, self.now_ms())
            if routing is not None:
                return routing
        return None

    def arrived(self, partition: Partition, queue: Queue) -> None:
        """Take note that a queue has got something."""
        self.progress.touched(partition, queue)

    def advanced(self, partition: Partition) -> None:
        """Take note that more of a partition is handed out, whoever got it."""
        self.progress.mark(partition)

    # What queues ask.

    def now_ms(self) -> int:
        """Return the wall-clock time."""
        return self._host.clock.now_ms()

    def routed(self, partition: Partition) -> int:
        """Return the offset before which a partition is handed out."""
        return self.following.position(partition)

    def touched(self, queue: Queue, source: Source) -> None:
        """Store how far the queue has come, soon; but not for a queue that is no more here."""
        if not queue.is_deleted:
            self.progress.touched(source.partition, queue)

    def refill(self, queue: Queue) -> None:
        """Have the queue look at more of what lies in the log."""
        self.following.refill(queue)

    def load(self, entry: Entry) -> bytes | None:
        """Return a message's body from the log; None if it is gone."""
        return load(entry)

    def fetch(self, queue: Queue, entry: Entry) -> None:
        """Get a message's body from another node, and put the message back."""
        self.start(bring_back(queue, entry))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that outlasts this turn, unless the node stops."""
        if self._tasks is not None:
            self._tasks.create_task(work)
        else:
            work.close()

    def bury(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Dead-letter a message, and then take it as done."""
        vhost = self.vhosts[queue.facts.vhost]
        if queue.is_deleted or self._tasks is None or not has_grave(vhost, queue):
            queue.finish(entry, is_unacked=False)
        else:
            self.start(bury(self.publishing, vhost, queue, (entry, reason)))

    def due(self, queue: Queue, at_ms: int) -> None:
        """Have the queue's `expire` called at a time."""
        delay_ms = max(at_ms - self.now_ms(), 0)
        self._alarm.set(_name(queue), self._alarm.now_ms() + delay_ms)

    def _ring(self, name: str) -> None:
        is_unused = name.startswith(UNUSED)
        vhost, _, queue_name = name.removeprefix(UNUSED).partition("\0")
        queue = self.vhosts[vhost].queues.get(queue_name)
        if queue is None:
            return
        if not is_unused:
            queue.expire()
        elif not queue.consumers:
            self.start(self._delete_unused(queue))

    async def _delete_unused(self, queue: Queue) -> None:
        if not queue.is_deleted:
            log.info("queue expired", queue=queue.name)
            await self._remove_queue(queue)

    def used(self, queue: Queue) -> None:
        """Begin anew to wait until a queue has been without use for too long."""
        expires_ms = queue.rules.expires_ms
        if expires_ms is not None:
            self._alarm.set(UNUSED + _name(queue), self._alarm.now_ms() + expires_ms)

    # What clients ask.

    def vhost(self, name: str) -> VirtualHost | None:
        """Return a virtual host, or None."""
        return self.vhosts.get(name)

    async def declare_exchange(self, vhost: VirtualHost, wanted: Exchange) -> Exchange:
        """Make an exchange, or return the one that is there if it is alike."""
        there = vhost.exchanges.find(wanted.name)
        if there is None:
            made = replace(wanted, since=self.publishing.next_stamp())
            if made.durable:
                await self._write([exchange_entry(vhost.name, made.name, made)])
            there = vhost.exchanges.find(wanted.name)
            if there is None:
                vhost.exchanges.add(made)
                await self._write(await self.following.begin_at_ends())
                return made
        fields = ("type", "durable", "auto_delete", "internal", "arguments")
        check_alike("exchange", wanted, there, fields)
        return there

    async def delete_exchange(self, vhost: VirtualHost, name: str, *, if_unused: bool) -> None:
        """Remove an exchange and its bindings; one that is not there is no fault."""
        exchange = vhost.exchanges.find(name)
        if exchange is None:
            return
        if if_unused and vhost.exchanges.bindings_from(name):
            raise DeclaredOtherwise(f"exchange '{name}' in vhost '{vhost.name}' in use")
        entries: list[Stored] = []
        stamp = self.publishing.next_stamp()
        ended = replace(exchange, until=stamp)
        if exchange.durable:
            entries.append(ended_entry(vhost.name, ended, ended))
            entries.append(exchange_entry(vhost.name, name, None))
        gone = vhost.exchanges.remove(name, stamp)
        vhost.exchanges.add(ended)
        for binding in gone:
            entries += self._end(vhost, binding, stamp)
        vhost.forget(name)
        await self._write(entries)
        await self._tidy()

    async def declare_queue(
        self, vhost: VirtualHost, wanted: QueueFacts, owner: object | None
    ) -> Queue:
        """Make a queue, or return the one that is there if it is alike."""
        there = vhost.queues.get(wanted.name)
        if there is None:
            made = new_queue(replace(wanted, since=self.publishing.next_stamp()), self)
            if wanted.durable and not wanted.exclusive:
                entry = queue_entry(vhost.name, wanted.name, made.facts)
                await self._write([*self._places_in(vhost.topic(wanted.name)), entry])
            there = vhost.queues.get(wanted.name)
            if there is None:
                made.owner = owner if wanted.exclusive else None
                vhost.queues[wanted.name] = made
                await self._begin(vhost, made)
                self.used(made)
                return made
        vhost.queue(wanted.name, owner)
        fields = ("durable", "exclusive", "auto_delete", "arguments")
        check_alike("queue", wanted, there.facts, fields)
        self.used(there)
        return there

    def _places_in(self, name: str) -> list[Stored]:
        """Return what to store so that a restart gives nobody what was there before."""
        topic = self._host.topics.find(name)
        for partition in topic.partitions if topic is not None else ():
            if self.following.follows(partition):
                self.progress.mark(partition)
        return self.progress.take()

    async def _begin(self, vhost: VirtualHost, queue: Queue) -> None:
        """Let a new queue begin at the end of its topic, or where it was told to."""
        if isinstance(queue, Stream):
            await queue.topic()
        await self._write(await self.following.begin_at_ends())
        await self.following.look_back(queue, vhost.topic(queue.name))

    async def delete_queue(
        self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Remove a queue with its messages; return how many waited in it."""
        where = f"queue '{queue.name}' in vhost '{queue.facts.vhost}'"
        if if_unused and queue.consumers:
            raise DeclaredOtherwise(f"{where} in use")
        if if_empty and queue.ready:
            raise DeclaredOtherwise(f"{where} not empty")
        count = queue.ready
        await self._remove_queue(queue)
        return count

    async def _remove_queue(self, queue: Queue) -> None:
        vhost = self.vhosts[queue.facts.vhost]
        if queue.is_deleted:
            return
        queue.is_deleted = True
        del vhost.queues[queue.name]
        self._alarm.discard(_name(queue))
        self._alarm.discard(UNUSED + _name(queue))
        entries: list[Stored] = []
        stamp = self.publishing.next_stamp()
        for binding in vhost.exchanges.bindings_to(queue.name):
            vhost.exchanges.unbind(binding, stamp)
            entries.append(binding_entry(vhost.name, binding, None))
            await self._auto_delete(vhost, binding.source)
        for retired in vhost.exchanges.retired():
            if retired.to_queue and retired.destination == queue.name:
                vhost.exchanges.forget(retired)
                entries.append(binding_entry(vhost.name, retired, None))
        if queue.facts.durable and not queue.facts.exclusive:
            entries.append(queue_entry(vhost.name, queue.name, None))
            entries += self._let_go(queue)
        for consumer in list(queue.consumers):
            queue.remove_consumer(consumer)
            consumer.cancelled()
        queue.sources.clear()
        vhost.forget(queue.name)
        await self._write(entries)
        await self._tidy()

    def _let_go(self, queue: Queue) -> Iterable[Stored]:
        for partition in queue.sources:
            topic = self._host.topics.find(partition.topic)
            if topic is not None:
                facts = queue.facts
                yield Held(facts.vhost, facts.name, topic.id, partition.index, None)

    async def bind(self, vhost: VirtualHost, wanted: Binding) -> None:
        """Lead messages from an exchange to a queue or another exchange."""
        if vhost.exchanges.find_binding(wanted) is not None:
            return
        binding = replace(wanted, since=self.publishing.next_stamp())
        if vhost.keeps(binding):
            entry = binding_entry(vhost.name, binding, binding)
            await self._write([*self._places_in(vhost.topic(binding.source)), entry])
        if vhost.exchanges.find_binding(wanted) is None:
            vhost.exchanges.bind(binding)
            await self._write(await self.following.begin_at_ends())
            if binding.to_queue:
                topic = vhost.topic(binding.source)
                await self.following.look_back(vhost.queues[binding.destination], topic)

    async def unbind(self, vhost: VirtualHost, wanted: Binding) -> None:
        """Lead messages there no more; a binding that is not there is no fault."""
        binding = vhost.exchanges.find_binding(wanted)
        if binding is not None:
            stamp = self.publishing.next_stamp()
            vhost.exchanges.unbind(binding, stamp)
            await self._write(self._end(vhost, binding, stamp))
            await self._auto_delete(vhost, binding.source)
            await self._tidy()

    def _end(self, vhost: VirtualHost, binding: Binding, stamp: int) -> list[Stored]:
        """Return what to store of a binding that has ended; messages were led over it."""
        retired = replace(binding, until=stamp)
        vhost.exchanges.bind(retired)
        return [binding_entry(vhost.name, binding, retired)]

    async def _auto_delete(self, vhost: VirtualHost, name: str) -> None:
        exchange = vhost.exchanges.find(name)
        if exchange is None or not exchange.auto_delete:
            return
        if not vhost.exchanges.bindings_from(name):
            await self.delete_exchange(vhost, name, if_unused=False)

    def consume(self, queue: Queue, consumer: Consumer, *, exclusive: bool) -> None:
        """Let a client have a queue's messages; raise PolicyViolation if one has it for itself."""
        if queue.is_deleted:
            raise UnknownQueue(f"no queue '{queue.name}' in vhost '{queue.facts.vhost}'")
        if queue.is_exclusively_consumed or (exclusive and queue.consumers):
            raise PolicyViolation(f"queue '{queue.name}' in exclusive use")
        queue.is_exclusively_consumed = exclusive
        queue.add_consumer(consumer)
        self._alarm.discard(UNUSED + _name(queue))

    def leave(self, queue: Queue, consumer: Consumer) -> None:
        """Give a client no more of a queue's messages."""
        queue.remove_consumer(consumer)
        if queue.consumers or queue.is_deleted:
            queue.pump()
            return
        self.used(queue)
        if queue.facts.auto_delete and queue.had_consumers:
            self.start(self._remove_queue(queue))

    def disown(self, owner: object) -> None:
        """Remove the exclusive queues of a connection that has ended."""
        for queue in self:
            if queue.owner is owner:
                self.start(self._remove_queue(queue))

    # The log.

    async def _write(self, entries: Sequence[Stored]) -> None:
        if not entries:
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ChordMQError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        self._log.append(KEY, entries, done)
        await written

    async def _tidy(self) -> None:
        """Forget topics that no exchange and no queue needs; those that were made here go."""
        entries, unused = self.following.forget_unwanted()
        await self._write(entries)
        for topic in unused:
            if topic in self.publishing.made:
                await self.publishing.remove(topic)

    async def trim(self) -> None:
        """Drop from topics made here what all queues are done with and retention does not keep."""
        await self._tidy()
        stamp = self.publishing.stamp()
        await self._write(forget_ended(self.vhosts.values(), stamp))
        made = self.publishing.made - {queue.own_topic for queue in self}
        await trim(self._host, [one for one in self.following.done() if one[0].topic in made])

    def __iter__(self) -> Iterator[Queue]:
        return iter([one for vhost in self.vhosts.values() for one in vhost.queues.values()])


def _name(queue: Queue) -> str:
    return f"{queue.facts.vhost}\0{queue.name}"

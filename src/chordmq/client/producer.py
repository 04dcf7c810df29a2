"""Batches records per partition and delivers each exactly once to the partition's leader."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from chordmq.client.backoff import Backoff
from chordmq.client.cluster import Cluster, TopicInfo
from chordmq.client.codes import Code
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import (
    BrokerRefused,
    ClientError,
    Closed,
    ConnectionLost,
    DeliveryTimedOut,
    ProtocolMismatch,
    RequestTimedOut,
    check,
)
from chordmq.client.opened import Opened
from chordmq.client.outbox import ANONYMOUS, Batch, Delivery, Identity, Lane, size_of
from chordmq.client.partitioner import StickyChoice, partition_for_key
from chordmq.codecs.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chordmq.dataclass import dataclass
from chordmq.records.compression import Compression
from chordmq.records.record import Headers, NewRecord

if TYPE_CHECKING:
    from chordmq.encryption.envelope import Envelope

ACKS_ALL = -1
TRANSACTION_TIMEOUT_MS = 60_000

_UNANSWERED = frozenset(
    {Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
_FORGOTTEN = frozenset(
    {Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH}
)
_COORDINATOR = frozenset({Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How records are gathered, and how sure their delivery is."""

    acks: int = ACKS_ALL
    idempotent: bool = True
    """Exactly one copy in spite of retries; needs acks=all and is ignored without."""
    compression: Compression = Compression.NONE
    linger_s: float = 0.005
    batch_bytes: int = 512 * 1024
    """A batch is sent when it is so large, or has lingered, and none is on its way before it."""
    buffer_bytes: int = 32 * 1024 * 1024
    """Records beyond this wait in `send` until others are delivered."""
    delivery_timeout_s: float = 120.0
    encryption: "Envelope | None" = None
    """Encrypts the values of all records; see `chordmq.encryption`."""


class Producer(Opened):
    """Sends records; use it as `async with Producer("host:port") as producer`.

    Leaving the block delivers what is still under way.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: ProducerSettings | None = None,
        connection: ConnectionSettings | None = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, connection)
        self.settings = settings or ProducerSettings()
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._sticky = StickyChoice(self.cluster.chance)
        self._identity: Identity | None = None
        self._identifying = asyncio.Lock()
        self._buffered = 0
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._backoffs: dict[Lane, Backoff] = {}
        self._failure: ClientError | None = None
        self._tasks = asyncio.TaskGroup()
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    async def _open(self) -> None:
        """Reach a broker, or raise CannotConnect."""
        await self.cluster.open()
        await self._tasks.__aenter__()
        self._sender = self._tasks.create_task(self._run())

    async def _close(self, error: BaseException | None) -> None:
        """Deliver everything, unless an error ended the block; then close."""
        try:
            if error is None:
                await self.flush()
        finally:
            self._closed = True
            for batch in self._pending():
                _refuse(batch, Closed("the producer was closed before the record was stored"))
            self.cluster.close()
            assert self._sender is not None
            self._sender.cancel()
            await self._tasks.__aexit__(None, None, None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> int:
        """Deliver one record and return its offset (-1 where the broker does not say)."""
        return await (
            await self.enqueue(topic, value, key=key, headers=headers, partition=partition)
        )

    async def enqueue(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Delivery:
        """Queue one record, waiting only for room; awaiting the result gives its offset."""
        record = NewRecord(self.cluster.clock.now_ms(), key, value, headers)
        return await self.enqueue_record(topic, record, partition)

    async def enqueue_record(
        self, topic: str, record: NewRecord, partition: int | None = None
    ) -> Delivery:
        """Queue a record that brings its own time."""
        (delivery,) = await self.enqueue_all(topic, [record], partition)
        return delivery

    async def enqueue_all(
        self, topic: str, records: Iterable[NewRecord], partition: int | None = None
    ) -> list[Delivery]:
        """Queue records in their order, at less cost for each than one by one."""
        info = self.cluster.known(topic) or await self._find(topic)
        count = len(info.partitions)
        if partition is not None and not 0 <= partition < count:
            raise BrokerRefused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} partition {partition}")
        deliveries = []
        if self.settings.encryption is not None:
            records = map(partial(self.settings.encryption.seal, topic), records)
        for record in records:
            size = size_of(record)
            if self._closed or self._buffered + size > self.settings.buffer_bytes:
                await self._make_room(size)
            index = self._choose(topic, record.key, count) if partition is None else partition
            deliveries.append(self._append(topic, index, record, size))
        return deliveries

    async def _find(self, topic: str) -> TopicInfo:
        """Ask for a topic as long as a record may wait for its broker to come back."""
        find = partial(self.cluster.topic, topic, create=True)
        return await self.cluster.retrying(find, (), self.settings.delivery_timeout_s)

    async def flush(self) -> None:
        """Wait until all records are answered; raise the first failure since the last flush."""
        while pending := [batch.done for batch in self._pending()]:
            self._hurry()
            await asyncio.wait(pending)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _pending(self) -> list[Batch]:
        """Return the batches that are not answered yet."""
        return [
            batch
            for lane in self._lanes.values()
            for batch in [*filter(None, [lane.in_flight]), *lane.queue]
        ]

    async def _make_room(self, size: int) -> None:
        while self._buffered and self._buffered + size > self.settings.buffer_bytes:
            self._hurry()
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise Closed("the producer was closed")

    def _choose(self, topic: str, key: bytes | None, partitions: int) -> int:
        if key is not None:
            return partition_for_key(key, partitions)
        return self._sticky.choose(topic, range(partitions))

    def _append(self, topic: str, partition: int, record: NewRecord, size: int) -> Delivery:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = Lane(topic, partition)
        batch = lane.queue[-1] if lane.queue else None
        # One with bytes was sent before, and is sent again as it was.
        if batch is None or batch.encoded or batch.size + size > self.settings.batch_bytes:
            batch = self._open_batch(lane, batch)
        self._buffered += size
        return Delivery(batch, batch.add(record, size))

    def _open_batch(self, lane: Lane, full: Batch | None) -> Batch:
        if full is not None and full.encoded is None:
            self._ripen(full)
            self._sticky.move_on(lane.topic, lane.partition)
        loop = asyncio.get_running_loop()
        batch = Batch(lane, self.cluster.clock.monotonic_s(), loop.create_future())
        lane.queue.append(batch)
        if self.settings.linger_s > 0:
            loop.call_later(self.settings.linger_s, self._ripen, batch)
        else:
            loop.call_soon(self._ripen, batch)
        return batch

    def _ripen(self, batch: Batch) -> None:
        batch.is_ripe = True
        self._wake.set()

    def _hurry(self) -> None:
        for lane in self._lanes.values():
            for batch in lane.queue:
                # One that was sent before waits for the end of its back-off.
                batch.is_ripe = batch.is_ripe or batch.encoded is None
        self._wake.set()

    async def _run(self) -> None:
        """Send what is ripe, one request for each leader, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            leaders: dict[int, list[Batch]] = defaultdict(list)
            for lane in self._lanes.values():
                batch = lane.take_ripe()
                if batch is not None:
                    self._sticky.move_on(lane.topic, lane.partition)
                    leaders[self._leader(lane)].append(batch)
            for leader, batches in leaders.items():
                self._tasks.create_task(self._deliver(leader, batches))

    def _leader(self, lane: Lane) -> int:
        info = self.cluster.known(lane.topic)
        return info.partitions[lane.partition].leader if info else -1

    async def _deliver(self, leader: int, batches: Sequence[Batch]) -> None:
        try:
            if leader < 0:
                for batch in batches:
                    await self.cluster.leader(batch.lane.topic, batch.lane.partition)
                for batch in batches:
                    batch.lane.put_back(batch)
                self._wake.set()
                return
            identity = await self._identify()
            answer = await self._produce(leader, batches, identity)
        except ClientError as error:
            for batch in batches:
                self._failed(batch, error)
            return
        self._answered(batches, answer)

    async def _produce(
        self, leader: int, batches: Sequence[Batch], identity: Identity
    ) -> ProduceResponse:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for batch in batches:
            data = batch.encode(identity, self.settings.compression)
            topics[batch.lane.topic].append(
                PartitionProduceData(index=batch.lane.partition, records=memoryview(data))
            )
        request = ProduceRequest(
            acks=self.settings.acks,
            timeout_ms=int(self.cluster.settings.request_timeout_s * 1000),
            topic_data=[
                TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()
            ],
        )
        connection = await self.cluster.node(leader, "produce")
        if self.settings.acks == 0:
            connection.tell(request)
            return ProduceResponse()
        return await connection.call(request, ProduceResponse)

    def _answered(self, batches: Iterable[Batch], answer: ProduceResponse) -> None:
        rows = {
            (topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for batch in batches:
            row = rows.get((batch.lane.topic, batch.lane.partition))
            if self.settings.acks == 0:
                self._stored(batch, -1)
            elif row is None:
                self._failed(batch, ProtocolMismatch("the broker left out a partition's answer"))
            elif row.error_code == Code.DUPLICATE_SEQUENCE_NUMBER:
                self._stored(batch, -1)
            elif row.error_code:
                subject = f"{batch.lane.topic} partition {batch.lane.partition}"
                self._failed(batch, BrokerRefused(row.error_code, subject, row.error_message))
            else:
                self._stored(batch, row.base_offset)

    def _stored(self, batch: Batch, base_offset: int) -> None:
        self._backoffs.pop(batch.lane, None)
        self._release(batch, stored=True)
        if not batch.done.done():
            batch.done.set_result(base_offset)

    def _failed(self, batch: Batch, error: ClientError) -> None:
        code = error.code if isinstance(error, BrokerRefused) else None
        if code == Code.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            batch.lane.split(batch)
            self._wake.set()
            return
        forgotten = code in _FORGOTTEN and not batch.is_uncertain
        if isinstance(error, ConnectionLost | RequestTimedOut) or code in _UNANSWERED:
            batch.is_uncertain = True
        if self._closed or not (error.retriable or forgotten):
            self._give_up(batch, error)
            return
        if forgotten and batch.identity is self._identity:
            self._identity = None
        self.cluster.forget(batch.lane.topic)
        delay_s = self._backoffs.setdefault(batch.lane, Backoff(self.cluster.chance)).next_s()
        deadline_s = batch.created_s + self.settings.delivery_timeout_s
        if self.cluster.clock.monotonic_s() + delay_s > deadline_s:
            expired = DeliveryTimedOut(
                f"not delivered in {self.settings.delivery_timeout_s:g} s: {error}"
            )
            expired.__cause__ = error
            self._give_up(batch, expired)
            return
        batch.is_ripe = False
        batch.lane.put_back(batch)
        asyncio.get_running_loop().call_later(delay_s, self._ripen, batch)

    def _give_up(self, batch: Batch, error: ClientError) -> None:
        # A batch that may be stored has perhaps used up its sequence numbers: start afresh.
        if batch.is_uncertain and batch.identity is self._identity:
            self._identity = None
        self._release(batch, stored=False)
        self._failure = self._failure or error
        _refuse(batch, error)

    def _release(self, batch: Batch, *, stored: bool) -> None:
        batch.lane.finish(batch, stored=stored)
        self._buffered -= batch.size
        self._room.set()
        self._wake.set()

    async def _identify(self) -> Identity:
        if self.settings.acks != ACKS_ALL or not self.settings.idempotent:
            return ANONYMOUS
        async with self._identifying:
            if self._identity is None:
                self._identity = await self.cluster.retrying(
                    self._ask_identity, _COORDINATOR, self.settings.delivery_timeout_s
                )
            return self._identity

    async def _ask_identity(self) -> Identity:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        connection = await self.cluster.any_node()
        answer = await connection.call(request, InitProducerIdResponse)
        check(answer.error_code, "producer id")
        return Identity(answer.producer_id, answer.producer_epoch)


def _refuse(batch: Batch, error: ClientError) -> None:
    if not batch.done.done():
        batch.done.set_exception(error)
        batch.done.exception()  # `flush` tells it to those who do not await each record

"""Clients of a cluster under test: librdkafka's, each in a thread, all they do is written down."""

import threading
from collections.abc import Callable
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import History, Read, Transaction, Write, now_s

POLL_S = 0.2
DELIVERY_MS = 100_000
"""Longer than anything is held up: when a record's time is up, librdkafka begins a new epoch and
sends again what may be in the log already, so that records come twice with any broker."""
PAUSE_S = 0.004
PER_TRANSACTION = 4
ABORTED = 0.2


class Client:
    """One thread that works until told to stop."""

    def __init__(self, name: str, bootstrap: str, history: History, seed: int) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.history = history
        self.chance = Random(f"{seed}/{name}")
        self.faults: list[str] = []
        """What went wrong so badly that the client had to begin anew."""
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self) -> None:
        """Stop, and wait until all that was begun has ended."""
        self.stopped.set()
        self._thread.join(DELIVERY_MS / 1000 + 60)
        assert not self._thread.is_alive(), f"{self.name} hangs"

    def work(self) -> None:
        """Do one life of the client; called again until it is told to stop."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.work()
            except KafkaException as error:
                self.faults.append(str(error))
                self.stopped.wait(0.5)


class Writer(Client):
    """An idempotent producer that waits for all replicas; each record goes to a random place."""

    def __init__(
        self, name: str, bootstrap: str, history: History, seed: int, places: list[tuple[str, int]]
    ) -> None:
        super().__init__(name, bootstrap, history, seed)
        self.places = places
        self.lives = 0
        self.count = 0

    def settings(self) -> dict[str, str | int | bool]:
        """Return how the producer is set."""
        return {
            "bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all",
            "delivery.timeout.ms": DELIVERY_MS, "linger.ms": 2, "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2_000,
            "log_level": 0,
        }  # fmt: skip

    def work(self) -> None:
        self.lives += 1
        producer = Producer(self.settings())
        fatal: list[KafkaError] = []
        while not self.stopped.is_set() and not fatal:
            self.send(producer, fatal)
            producer.poll(0)
            self.stopped.wait(PAUSE_S)
        producer.flush(DELIVERY_MS / 1000 + 5)
        if fatal:
            self.faults.append(str(fatal[0]))

    def send(
        self, producer: Producer, fatal: list[KafkaError], transaction: str | None = None
    ) -> None:
        """Send one record, and take note of what becomes of it."""
        topic, partition = self.chance.choice(self.places)
        self.count += 1
        write = self.history.write(
            Write(
                f"{self.name}-{self.count}", topic, partition, f"{self.name}.{self.lives}", now_s(),
                transaction=transaction,
            )
        )  # fmt: skip

        def delivered(error: KafkaError | None, message: Message) -> None:
            write.ended_s = now_s()
            if error is None:
                write.outcome, write.offset = "ok", message.offset()
            elif error.fatal():
                fatal.append(error)

        try:
            producer.produce(topic, write.value, partition=partition, on_delivery=delivered)
        except BufferError:
            write.outcome = "failed"
            producer.poll(0.5)


class Transactor(Writer):
    """A transactional producer; some transactions are aborted."""

    def settings(self) -> dict[str, str | int | bool]:
        return super().settings() | {
            "transactional.id": self.name,
            "transaction.timeout.ms": DELIVERY_MS,
        }

    def work(self) -> None:
        self.lives += 1
        producer = Producer(self.settings())
        self._until_done(lambda: producer.init_transactions(10))
        while not self.stopped.is_set():
            begun = self.history.transaction(f"{self.name}-{self.lives}-{self.count}")
            producer.begin_transaction()
            self._transact(producer, begun)
            self.stopped.wait(PAUSE_S * 10)

    def _transact(self, producer: Producer, begun: Transaction) -> None:
        fatal: list[KafkaError] = []
        for _ in range(PER_TRANSACTION):
            self.send(producer, fatal, begun.name)
        try:
            if self.chance.random() < ABORTED:
                self._abort(producer, begun)
                return
            self._until_done(lambda: producer.commit_transaction(10))
            begun.outcome = "committed"
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise  # what became of it is not known
            self._abort(producer, begun)

    def _abort(self, producer: Producer, begun: Transaction) -> None:
        self._until_done(lambda: producer.abort_transaction(10))
        begun.outcome = "aborted"

    def _until_done(self, call: Callable[[], None]) -> None:
        """Repeat what may be repeated."""
        deadline = now_s() + 90
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or now_s() > deadline:
                    raise
            else:
                return


class Reader(Client):
    """Reads committed records of all partitions, from the start, on its own."""

    def __init__(
        self, name: str, bootstrap: str, history: History, seed: int, places: list[tuple[str, int]]
    ) -> None:
        super().__init__(name, bootstrap, history, seed)
        self.places = places
        self.assignment = 0
        self.sequence = 0
        self.positions: dict[tuple[str, int], int] = {}

    def settings(self) -> dict[str, str | int | bool]:
        """Return how the consumer is set."""
        return {
            "bootstrap.servers": self.bootstrap, "group.id": self.name.partition("/")[0],
            "isolation.level": "read_committed", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 500, "session.timeout.ms": 6_000,
            "topic.metadata.refresh.interval.ms": 2_000, "log_level": 0,
        }  # fmt: skip

    def begin(self, consumer: Consumer) -> None:
        """Say what to read."""
        self.assignment += 1
        consumer.assign(
            [
                TopicPartition(topic, index, self.positions.get((topic, index), 0))
                for topic, index in self.places
            ]
        )

    def after(self, consumer: Consumer) -> None:
        """Do what has to be done after some records."""

    def work(self) -> None:
        consumer = Consumer(self.settings())
        try:
            self.begin(consumer)
            while not self.stopped.is_set():
                messages = consumer.consume(500, POLL_S)
                for message in messages:
                    self.take(message)
                if messages:
                    self.after(consumer)
        finally:
            consumer.close()

    def take(self, message: Message) -> None:
        """Take note of a record."""
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            return
        self.sequence += 1
        read = read_of(self.name, self.sequence, message, self.assignment)
        self.positions[read.place] = read.offset + 1
        self.history.read(read)


class Member(Reader):
    """Reads with others as a group, and commits what it has read."""

    def begin(self, consumer: Consumer) -> None:
        def assigned(_: Consumer, __: list[TopicPartition]) -> None:
            self.assignment += 1

        consumer.subscribe(sorted({topic for topic, _ in self.places}), on_assign=assigned)

    def after(self, consumer: Consumer) -> None:
        """Commit; what is not committed is read again by whoever comes next.

        Not waited for: librdkafka waits for a commit without end if it loses its coordinator.
        """
        consumer.commit(asynchronous=True)


def read_of(consumer: str, sequence: int, message: Message, assignment: int = 0) -> Read:
    """Return what a consumer got, in our own words."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    value = message.value()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    assert value is not None
    return Read(consumer, sequence, topic, partition, offset, value.decode(), assignment)


def read_to_end(
    bootstrap: str, places: list[tuple[str, int]], patience_s: float
) -> tuple[list[Read], dict[tuple[str, int], int]]:
    """Return all committed records, and where each partition ends."""
    settings = Reader("final", bootstrap, History(), 0, places).settings()
    consumer = Consumer(settings)
    deadline = now_s() + patience_s
    try:
        ends = {}
        for topic, index in places:
            ends[topic, index] = _end(consumer, TopicPartition(topic, index), deadline)
        consumer.assign([TopicPartition(topic, index, 0) for topic, index in places])
        found: list[Read] = []
        while True:
            for message in consumer.consume(2_000, POLL_S):
                if message.error() is None:
                    found.append(read_of("final", len(found), message))
            positions = consumer.position([TopicPartition(t, i) for t, i in places])
            if all(one.offset >= ends[one.topic, one.partition] for one in positions):
                return found, ends
            assert now_s() < deadline, f"cannot read to the end: {positions}"
    finally:
        consumer.close()


def _end(consumer: Consumer, place: TopicPartition, deadline: float) -> int:
    """Return where a partition ends for committed readers; it may have no leader for a moment."""
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=5)[1])
        except KafkaException:
            assert now_s() < deadline, f"{place} has no leader"

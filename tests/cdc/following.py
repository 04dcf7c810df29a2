"""A source that runs as its users run it, and what it has written, read by another's client."""

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from chordmq.cdc.change import Change, Spoiled
from chordmq.cdc.runner import Runner, broker_of
from chordmq.cdc.settings import Source, read_plan
from chordmq.clock import SystemClock
from tests.running_node import die_with_parent

PATIENCE_S = 60.0

Config = dict[str, Any]


class Written(NamedTuple):
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: dict[str, bytes]

    @property
    def op(self) -> str:
        """Return what the event says happened; t stands for a tombstone here."""
        return "tombstone" if self.value is None else str(self.value["op"])


def source_of(config: Config) -> Source:
    """Return a source from its settings."""
    return read_plan({"sources": [config]}).sources[0]


def id_of(change: Change | Spoiled) -> Any:
    """Return the field `id` of a change's key."""
    assert isinstance(change, Change), change
    return msgspec.json.decode(change.key or b"")["id"]


@asynccontextmanager
async def following(config: Config, bootstrap: str) -> AsyncIterator[Runner]:
    """Run a source in this process for the length of a block; its failure fails the block."""
    plan = read_plan({"broker": {"bootstrap": bootstrap}, "sources": [config]})
    runner = Runner(plan.sources[0], broker_of(plan.broker), SystemClock())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so; fail when that takes too long."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  what is awaited lies in another process
            await asyncio.sleep(0.05)


class FollowingProcess:
    """A source in a process of its own, which can be killed."""

    def __init__(self, directory: Path, config: Config, bootstrap: str) -> None:
        self._file = directory / f"{config['name']}.json"
        self._log = directory / f"{config['name']}.log"
        plan = {"broker": {"bootstrap": bootstrap}, "sources": [config]}
        self._file.write_text(json.dumps(plan))  # JSON is YAML, too
        self._port = config.get("port", 0)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """Return what it has printed."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """Return the process id of the running source."""
        assert self._process is not None, "the source is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "chordmq", "cdc", "run", str(self._file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def kill9(self) -> None:
        """End the process as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """Ask the process to stop, and return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return the exit status when the process ends."""
        assert self._process is not None
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            self.close()

    def close(self) -> None:
        """End the process if it still runs."""
        if self._process is not None:
            self.kill9()

    def health(self) -> dict[str, Any]:
        """Return what it says of itself, or nothing if it does not answer."""
        try:
            address = f"http://127.0.0.1:{self._port}/health"
            with urllib.request.urlopen(address, timeout=5) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return dict(json.load(error))
        except OSError:
            return {}


class Reader:
    """Reads committed records of some topics with librdkafka, as they come."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._topics = topics
        self._assigned: set[tuple[str, int]] = set()
        self.written: list[Written] = []

    def read_until(self, is_enough: Callable[[list[Written]], bool]) -> list[Written]:
        """Read on until there is enough; fail when that takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough(self.written):
            if time.monotonic() > deadline:
                seen = [(one.topic, one.key, one.value) for one in self.written[-20:]]
                raise AssertionError(f"only {len(self.written)} records came; the last: {seen}")
            self._look_for_topics()
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    self.written.append(_written(message))
        return self.written

    def read_all(self, count: int) -> list[Written]:
        """Read so many records, and then on until nothing more comes for a moment."""
        self.read_until(lambda written: len(written) >= count)
        while messages := self._consumer.consume(1000, 1.0):
            self.written += [_written(one) for one in messages if one.error() is None]
        return self.written

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def _look_for_topics(self) -> None:
        """Read the topics of ours that are there; some come later."""
        if len({topic for topic, _ in self._assigned}) == len(self._topics):
            return
        try:
            known = self._consumer.list_topics(timeout=5).topics
        except KafkaException:
            return  # the broker is down for the moment
        found = {
            (name, index)
            for name in self._topics
            if name in known
            for index in known[name].partitions
        }
        if found != self._assigned:
            new = [TopicPartition(name, index, 0) for name, index in found - self._assigned]
            self._consumer.incremental_assign(new)
            self._assigned = found


def _written(message: Any) -> Written:
    key, value = message.key(), message.value()
    return Written(
        message.topic(),
        message.partition(),
        message.offset(),
        None if key is None else msgspec.json.decode(key),
        None if value is None else msgspec.json.decode(value),
        dict(message.headers() or []),
    )


async def read_until(
    bootstrap: str, topics: list[str], is_enough: Callable[[list[Written]], bool]
) -> list[Written]:
    """Read topics beside a running source until there is enough."""

    def read() -> list[Written]:
        reader = Reader(bootstrap, topics)
        try:
            return reader.read_until(is_enough)
        finally:
            reader.close()

    return await asyncio.to_thread(read)

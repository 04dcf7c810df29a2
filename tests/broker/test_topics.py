"""Topics on a real database and real logs: what is promised about names, limits and crashes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from chordmq.broker.flusher import Flusher
from chordmq.broker.log_settings import log_settings
from chordmq.broker.names import Names
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.broker.topic import Topic, check_name
from chordmq.broker.topics import Topics
from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.topics import TopicTable
from chordmq.errors import (
    ChordMQError,
    InvalidPartitionCount,
    InvalidReplicationFactor,
    InvalidSetting,
    InvalidTopicName,
    PolicyViolation,
    StorageFailed,
    TopicDeletionDisabled,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.directories import partition_directory
from chordmq.storage.log import Log
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.held import HeldTable
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.tail import TailBudget


@asynccontextmanager
async def opened(root: Path, settings: BrokerSettings | None = None) -> AsyncIterator[Topics]:
    """Open the topics below a directory, and close them as a node does."""
    clock = SystemClock()
    database = Database(root / "meta.db")
    failures: list[BaseException] = []
    shared = Shared(Flusher(failures.append), clock)
    tail = TailBudget(1 << 20, clock)
    catalogue = SegmentCatalogue(database)

    def open_partition(topic: Topic, index: int) -> Partition:
        directory = partition_directory(root / "topics", topic.name, index)
        log = Log(directory, log_settings(topic.settings), clock, tail, catalogue)
        return Partition(topic.name, index, log, topic.settings, shared)

    topics = Topics(
        root / "topics", table_in(database), settings or BrokerSettings(), open_partition
    )
    remover = asyncio.ensure_future(topics.run())
    try:
        yield topics
    finally:
        remover.cancel()
        shared.flusher.close()
        topics.close()
        database.close()
        assert failures == []


def table_in(database: Database) -> TopicTable:
    """Return the topics of a node alone."""
    image = Image.local(database, SystemClock())
    return TopicTable(image, HeldTable(database), Members(image, 0))


def append(partition: Partition, value: bytes) -> None:
    partition.append(memoryview(build_batch([NewRecord(SystemClock().now_ms(), None, value)])))


def lose_database(root: Path) -> None:
    for file in root.glob("meta.db*"):
        file.unlink()


def directories(topics: Topics) -> list[str]:
    return sorted(path.name for path in topics.directory.iterdir())


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_a_legal_name_is_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\x00"])
def test_an_illegal_name_is_refused(name: str) -> None:
    """C7: topic names follow Kafka's rules."""
    with pytest.raises(InvalidTopicName):
        check_name(name)


async def test_a_topic_survives_a_restart_with_id_partitions_and_settings(tmp_path: Path) -> None:
    """C1: a created topic is durable."""
    async with opened(tmp_path) as topics:
        made = await topics.create("t", 3, 1, {"retention.ms": "1000"})
    async with opened(tmp_path) as topics:
        topic = topics.get("t")
        assert topic.id == made.id
        assert [p.index for p in topic.partitions] == [0, 1, 2]
        assert topic.settings.retention_ms == 1000
        assert topic.partitions[0].log.settings.retention_ms == 1000
        assert topics.by_id(made.id) is topic


async def test_numbers_left_open_come_from_the_node(tmp_path: Path) -> None:
    async with opened(tmp_path, BrokerSettings(num_partitions=4)) as topics:
        assert len((await topics.create("t")).partitions) == 4


async def test_what_is_not_there_is_unknown(tmp_path: Path) -> None:
    """C12: unknown names and unknown ids are different faults."""
    async with opened(tmp_path) as topics:
        assert topics.find("t") is None
        with pytest.raises(UnknownTopic):
            topics.get("t")
        with pytest.raises(UnknownTopicId):
            topics.by_id(bytes(16))
        with pytest.raises(UnknownTopic):
            await topics.delete("t")
        with pytest.raises(UnknownTopic):
            await topics.add_partitions("t", 2)


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "settings", "fault"),
    [
        ("there", 1, 1, {}, TopicExists),
        ("the.re_", 1, 1, {}, InvalidTopicName),
        ("new", 0, 1, {}, InvalidPartitionCount),
        ("new", -2, 1, {}, InvalidPartitionCount),
        ("new", 10_001, 1, {}, PolicyViolation),
        ("new", 21, 1, {}, PolicyViolation),
        ("new", 1, 0, {}, InvalidReplicationFactor),
        ("new", 1, 2, {}, InvalidReplicationFactor),
        ("new", 1, 1, {"retention.ms": "x"}, InvalidSetting),
        ("new", 1, 1, {"colour": "red"}, InvalidSetting),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path: Path,
    name: str,
    partitions: int,
    replicas: int,
    settings: dict[str, str],
    fault: type[ChordMQError],
) -> None:
    """C7: each fault has its own error."""
    async with opened(tmp_path, BrokerSettings(max_partitions=20)) as topics:
        await topics.create("there")
        await topics.create("the_re.")
        with pytest.raises(fault):
            await topics.create(name, partitions, replicas, settings)
        assert len(topics) == 2
        assert directories(topics) == ["the_re.-0", "there-0"]


async def test_asking_twice_at_once_makes_one_topic(tmp_path: Path) -> None:
    async with opened(tmp_path) as topics:
        first, second = await asyncio.gather(topics.ensure("t"), topics.ensure("t"))
        assert first is second


async def test_a_creation_is_finished_although_the_client_goes_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as topics:
        asking = asyncio.ensure_future(topics.create("t"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await topics.ensure("t") is topics.get("t")


async def test_a_deleted_topic_is_gone_at_once_and_its_files_soon(tmp_path: Path) -> None:
    """C1: deletion frees the name and the disk."""
    async with opened(tmp_path) as topics:
        old = await topics.create("t", 2)
        append(old.partitions[0], b"old")
        await topics.delete("t")
        assert topics.find("t") is None
        new = await topics.create("t", 2)
        assert new.id != old.id
        assert new.partitions[0].log.end_offset == 0
        with pytest.raises(UnknownTopic):
            append(old.partitions[0], b"late")
        await topics.removed()
        assert directories(topics) == ["t-0", "t-1"]


async def test_filters_find_topics_that_come_and_go_also_after_a_restart(tmp_path: Path) -> None:
    """E2: the names are kept beside the topics themselves."""
    wanted = Names().reach("site/+/#")
    async with opened(tmp_path) as topics:
        for name in ("site.one", "site.two", "elsewhere.one"):
            await topics.create(name)
        await topics.delete("site.one")
        assert [topic.name for topic in wanted.among(topics)] == ["site.two"]
        await topics.create("site.one")
    async with opened(tmp_path) as topics:
        assert [topic.name for topic in wanted.among(topics)] == ["site.one", "site.two"]


async def test_a_topic_is_deleted_while_it_is_being_flushed(tmp_path: Path) -> None:
    """D5: no flush meets files that the deletion has put away."""
    async with opened(tmp_path) as topics:
        for _ in range(10):
            topic = await topics.create("t", 2)
            for partition in topic.partitions:
                append(partition, b"first")
            await asyncio.sleep(0)  # the flusher takes what was written so far
            for partition in topic.partitions:
                append(partition, b"second")
            await topics.delete("t")


async def test_a_topic_with_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as topics:
        await topics.create("n" * 249, 11)
        await topics.delete("n" * 249)
        assert len(topics) == 0


async def test_deleting_can_be_forbidden(tmp_path: Path) -> None:
    async with opened(tmp_path, BrokerSettings(delete_topic_enable=False)) as topics:
        await topics.create("t")
        with pytest.raises(TopicDeletionDisabled):
            await topics.delete("t")
        assert topics.find("t")


async def test_a_crash_between_deleting_the_row_and_the_files_is_made_good(tmp_path: Path) -> None:
    """D5: after a crash the rows decide; a namesake never begins with old records."""
    async with opened(tmp_path) as topics:
        topic = await topics.create("t")
        append(topic.partitions[0], b"old")
    database = Database(tmp_path / "meta.db")
    table = table_in(database)
    await table.remove(table.rows()[0])  # and here the node dies
    database.close()
    async with opened(tmp_path) as topics:
        assert topics.find("t") is None
        assert (await topics.create("t")).partitions[0].log.end_offset == 0


async def test_a_crash_between_the_row_and_the_files_of_a_new_topic_is_made_good(
    tmp_path: Path,
) -> None:
    """D5: a topic exists from the commit of its row on."""
    async with opened(tmp_path) as topics:
        row = topics.check_new("t", 2, 1, {"flush": "os"})
    database = Database(tmp_path / "meta.db")
    await table_in(database).insert(row)  # and here the node dies
    database.close()
    async with opened(tmp_path) as topics:
        topic = topics.get("t")
        assert len(topic.partitions) == 2
        assert not topic.settings.flushes_to_disk


async def test_files_of_no_known_topic_are_put_aside_and_not_deleted(tmp_path: Path) -> None:
    """D5: losing the database alone must not destroy the logs."""
    async with opened(tmp_path) as topics:
        topic = await topics.create("t")
        append(topic.partitions[0], b"precious")
        size = topic.partitions[0].log.size
    lose_database(tmp_path)
    async with opened(tmp_path) as topics:
        (stray,) = topics.directory.glob("t-0.*-stray")
        assert sum(file.stat().st_size for file in stray.glob("*.log")) == size
        assert (await topics.create("t")).partitions[0].log.end_offset == 0


async def test_files_in_the_way_of_a_new_topic_are_put_away_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as topics:
        (topics.directory / "t-1").mkdir()
        with pytest.raises(StorageFailed, match="in the way"):
            await topics.create("t", 2)
        assert topics.find("t") is None
        assert len((await topics.create("t", 2)).partitions) == 2


async def test_a_topic_grows_and_never_shrinks(tmp_path: Path) -> None:
    """C2: CreatePartitions is durable."""
    async with opened(tmp_path) as topics:
        topic = await topics.create("t", 2)
        append(topic.partitions[1], b"kept")
        for wrong in (2, 1, 0):
            with pytest.raises(InvalidPartitionCount):
                await topics.add_partitions("t", wrong)
        await topics.add_partitions("t", 5)
        assert [p.index for p in topic.partitions] == [0, 1, 2, 3, 4]
    async with opened(tmp_path) as topics:
        assert len(topics.get("t").partitions) == 5
        assert topics.get("t").partitions[1].log.end_offset == 1


async def test_changed_settings_reach_the_logs_and_survive_a_restart(tmp_path: Path) -> None:
    """C7: settings are changed while the topic is used."""
    async with opened(tmp_path) as topics:
        topic = await topics.create("t", 1, 1, {"retention.ms": "1000"})
        await topics.alter_settings("t", lambda given: {**given, "retention.bytes": "77"})
        assert topic.partitions[0].log.settings.retention_bytes == 77
        assert topic.partitions[0].log.settings.retention_ms == 1000
        await topics.alter_settings("t", lambda _: {"retention.ms": "5"}, validate_only=True)
        with pytest.raises(InvalidSetting):
            await topics.alter_settings("t", lambda _: {"retention.ms": "-5"})
    async with opened(tmp_path) as topics:
        assert topics.get("t").overrides == {"retention.ms": "1000", "retention.bytes": "77"}


async def test_a_changed_default_reaches_topics_that_do_not_override_it(tmp_path: Path) -> None:
    """C7: node settings are changed while the node runs, durably."""
    async with opened(tmp_path) as topics:
        plain = await topics.create("plain")
        own = await topics.create("own", settings={"retention.ms": "1"})
        await topics.alter_node_settings(lambda _: {"log.retention.ms": "9"})
        assert plain.partitions[0].settings.retention_ms == 9
        assert own.partitions[0].settings.retention_ms == 1
        await topics.alter_node_settings(lambda _: {}, validate_only=True)
    async with opened(tmp_path) as topics:
        assert topics.get("plain").settings.retention_ms == 9
        assert topics.settings.dynamic == {"log.retention.ms": "9"}


async def test_a_stored_setting_that_is_no_longer_known_does_not_stop_the_node(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as topics:
        await topics.create("t")
    database = Database(tmp_path / "meta.db")
    table = table_in(database)
    stored = {"gone": "1", "retention.ms": "8"}
    await table.change(replace(table.rows()[0], settings=stored))
    database.close()
    async with opened(tmp_path) as topics:
        assert topics.get("t").settings.retention_ms == 8

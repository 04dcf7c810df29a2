"""Encryption at the node: sealed in the log, open for the clients of fronts that build batches."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.feed import Feed
from chordmq.broker.flusher import Flusher
from chordmq.broker.payloads import EncryptionSettings, Payloads
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.encryption.envelope import Envelope
from chordmq.encryption.keyring import new_ring
from chordmq.encryption.providers import FileKeys, write_ring
from chordmq.errors import CannotStart, InvalidSetting
from chordmq.records.record import NewRecord, Record, read_records


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    write_ring(file, new_ring(0), is_new=True)
    return file


@pytest.fixture
async def broker(tmp_path: Path, keys: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path / "data", BrokerSettings(), SystemClock(), Flusher())
    settings = EncryptionSettings(keys=str(keys), topics="orders, private.*")
    broker.shared.payloads = Payloads(settings, SystemClock())
    for name in ("orders", "private.a", "public"):
        await broker.topics.create(name, 1)
    yield broker
    broker.close()


async def published(broker: Broker, topic: str) -> tuple[Record, Record]:
    """Publish a record as fronts do; return what is stored and what a reader gets."""
    partition = broker.partition(topic, 0)
    async with asyncio.timeout(60):
        await Appends().append(partition, [NewRecord(1, b"k", b"secret")])
    (stored,) = read_records(partition.log.read(0, 1000)[0])
    ((_, shown),) = Feed({0: partition}, {}).take(10, 1000)
    return stored, shown


@pytest.mark.parametrize("topic", ["orders", "private.a"])
async def test_records_are_sealed_in_the_log_and_open_for_readers(
    broker: Broker, keys: Path, topic: str
) -> None:
    """E13: payload encryption for sensitive topics; Kafka clients with the keys can read them."""
    stored, shown = await published(broker, topic)
    assert b"secret" not in (stored.value or b"")
    assert (shown.key, shown.value, shown.headers) == (b"k", b"secret", ())
    elsewhere = Envelope(FileKeys(keys), SystemClock())
    assert elsewhere.open(topic, stored).value == b"secret"


async def test_other_topics_stay_as_they_are(broker: Broker) -> None:
    stored, shown = await published(broker, "public")
    assert stored.value == shown.value == b"secret"


async def test_a_record_that_cannot_be_opened_is_handed_out_as_it_is_stored(
    broker: Broker, tmp_path: Path
) -> None:
    stored, _ = await published(broker, "orders")
    write_ring(tmp_path / "others", new_ring(0), is_new=True)
    settings = EncryptionSettings(keys=str(tmp_path / "others"), topics="orders")
    payloads = Payloads(settings, SystemClock())
    assert payloads.open("orders", [stored]) == [stored]
    assert payloads.unopened == 1


def test_keys_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    settings = EncryptionSettings(keys=str(tmp_path / "missing"), topics="orders")
    with pytest.raises(CannotStart, match=r"encryption\.keys"):
        Payloads(settings, SystemClock())


@pytest.mark.parametrize("settings", [{"keys": "k"}, {"topics": "t"}])
def test_keys_and_topics_go_together(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        _ = EncryptionSettings(**settings).patterns

"""Records of the consumer protocol; the bytes were written by Apache Kafka 4.3."""

import pytest

from chordmq.broker.groups.consumer_image import (
    ClassicTerms,
    ConsumerMember,
    ConsumerRecord,
    EpochRecord,
    Holding,
    HoldingRecord,
    MemberRecord,
    Step,
    TargetEpochRecord,
    TargetRecord,
)
from chordmq.broker.groups.records import read, write
from chordmq.errors import DecodeError

TOPIC = bytes.fromhex("338a07647f8549fda7de5199b36cc946")
PLACES = frozenset((TOPIC, index) for index in range(4))
LISTED = b"\x02" + TOPIC + b"\x05" + b"".join(n.to_bytes(4, "big") for n in range(4))
MEMBER = ConsumerMember(
    member_id="m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/127.0.0.1",
    topics=frozenset({"a", "b"}),
    pattern="x.*",
    rebalance_timeout_ms=30_000,
    assignor="range",
    classic=ClassicTerms(10_000, (("range", b"meta"),)),
)


@pytest.mark.parametrize(
    "record",
    [
        EpochRecord("g", 3, -9),
        EpochRecord("g", None),
        MemberRecord("g", "m", MEMBER),
        MemberRecord("g", "m", ConsumerMember(member_id="m")),
        MemberRecord("g", "m", None),
        TargetEpochRecord("g", 3),
        TargetEpochRecord("g", None),
        TargetRecord("g", "m", PLACES),
        TargetRecord("g", "m", frozenset()),
        TargetRecord("g", "m", None),
        HoldingRecord("g", "m", Holding(epoch=-2, previous_epoch=2)),
        HoldingRecord(
            "g", "m", Holding(epoch=3, previous_epoch=2, step=Step.UNREVOKED, revoking=PLACES)
        ),
        HoldingRecord("g", "m", None),
    ],
)
def test_what_is_written_is_read_back(record: ConsumerRecord) -> None:
    assert read(*write(record)) == record


def test_epochs_and_targets_have_the_bytes_of_kafka() -> None:
    """C4: the log is Kafka's own."""
    assert write(TargetRecord("g", "m", PLACES)) == (
        b"\x00\x07\x00\x01g\x00\x01m",
        b"\x00\x00" + LISTED + b"\x00\x00",
    )
    assert write(EpochRecord("g", 2, 1)) == (
        b"\x00\x03\x00\x01g",
        b"\x00\x00\x00\x00\x00\x02\x01\x00\x08" + (1).to_bytes(8, "big"),
    )


def test_records_of_kafka_with_newer_fields_are_read() -> None:
    """C4: assignment times and epochs of single partitions are passed over."""
    value = b"\x00\x00\x00\x00\x00\x02\x01\x00\x08\x00\x00\x01\xa1\xe1\xb7,p"
    assert read(b"\x00\x06\x00\x01g", value) == TargetEpochRecord("g", 2)
    epochs = b"\x01\x00\x11\x05" + (1).to_bytes(4, "big") * 4
    value = b"\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00" + LISTED + epochs + b"\x01\x00"
    held = Holding(epoch=1, previous_epoch=1, assigned=PLACES)
    assert read(b"\x00\x08\x00\x01g\x00\x01m", value) == HoldingRecord("g", "m", held)
    value = (
        b"\x00\x00\x00\x00\rchordmq-test\x0b/127.0.0.1\x02\x0ft-8cffd457a570\x01"
        b"\x00\x00u0\x00\x01\x00\x01\x00"
    )
    record = read(b"\x00\x05\x00\x01g\x00\x01m", value)
    assert isinstance(record, MemberRecord)
    assert record.member is not None
    assert record.member.topics == frozenset({"t-8cffd457a570"})
    assert record.member.classic is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x02\x00"),
        (b"\x00\x03\x00\x01g", b""),
        (b"\x00\x03\x00\x09g", None),
        (b"\x00\x08\x00\x01g\x00\x01m", b"\x00\x00" + bytes(8) + b"\x7f\x01\x01\x00"),
    ],
)
def test_bytes_that_are_not_records_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read(key, value)

"""The records of `__consumer_offsets` in Kafka's bytes."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from chordmq.broker.groups.membership import GroupSnapshot, MemberSnapshot
from chordmq.broker.groups.offsets import CommittedOffset, OffsetKey, OffsetRecord
from chordmq.broker.groups.records import GroupRecord, read, write
from chordmq.errors import DecodeError

OFFSET = OffsetRecord(
    OffsetKey("g", "topic", 3),
    CommittedOffset(offset=42, leader_epoch=7, metadata="m", commit_ms=1_700_000_000_000),
)
OFFSET_KEY = bytes.fromhex("0001 0001 67 0005 746f706963 00000003")
OFFSET_VALUE = bytes.fromhex("0003 000000000000002a 00000007 0001 6d 0000018bcfe56800")
MEMBER = MemberSnapshot(
    member_id="m",
    instance_id=None,
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=10_000,
    subscription=b"\x01",
    assignment=b"\x02\x03",
)
GROUP = GroupRecord(
    "g",
    GroupSnapshot(
        group_id="g",
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        since_ms=1_700_000_000_000,
        members=(MEMBER,),
    ),
)
GROUP_KEY = bytes.fromhex("0002 0001 67")
GROUP_VALUE = bytes.fromhex(
    "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 0000018bcfe56800 00000001"
    "0001 6d ffff 0001 63 0002 2f68 000493e0 00002710 00000001 01 00000002 0203"
)


def test_an_offset_has_kafkas_bytes() -> None:
    """C1: tools that read the topic find key version 1 and value version 3."""
    assert write(OFFSET) == (OFFSET_KEY, OFFSET_VALUE)
    assert read(OFFSET_KEY, OFFSET_VALUE) == OFFSET


def test_a_group_has_kafkas_bytes() -> None:
    """C1: tools that read the topic find key version 2 and value version 3."""
    assert write(GROUP) == (GROUP_KEY, GROUP_VALUE)
    assert read(GROUP_KEY, GROUP_VALUE) == GROUP


def test_a_null_value_deletes() -> None:
    assert write(OffsetRecord(OFFSET.key, None)) == (OFFSET_KEY, None)
    assert read(OFFSET_KEY, None) == OffsetRecord(OFFSET.key, None)
    assert write(GroupRecord("g", None)) == (GROUP_KEY, None)
    assert read(GROUP_KEY, None) == GroupRecord("g", None)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    record = GroupRecord(
        "g",
        GroupSnapshot(
            group_id="g", protocol_type="consumer", generation=5, protocol=None, leader=None
        ),
    )
    assert read(*write(record)) == record


def test_an_offset_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    committed = CommittedOffset(offset=1, commit_ms=2, expire_ms=3)
    key, value = write(OffsetRecord(OFFSET.key, committed))
    assert value is not None
    assert value[:2] == b"\x00\x01"
    assert read(key, value) == OffsetRecord(OFFSET.key, committed)


@pytest.mark.parametrize(
    ("value", "epoch", "expire_ms"),
    [
        ("0000 000000000000002a 0001 6d 0000000000000009", -1, -1),
        ("0001 000000000000002a 0001 6d 0000000000000009 000000000000000b", -1, 11),
        ("0002 000000000000002a 0001 6d 0000000000000009", -1, -1),
        ("0003 000000000000002a 00000007 0001 6d 0000000000000009", 7, -1),
        ("0004 000000000000002a 00000007 02 6d 0000000000000009 00", 7, -1),
        (
            "0004 000000000000002a 00000007 02 6d 0000000000000009"
            "01 00 10 000102030405060708090a0b0c0d0e0f",
            7,
            -1,
        ),
    ],
)
def test_offsets_of_every_version_are_read(value: str, epoch: int, expire_ms: int) -> None:
    committed = CommittedOffset(
        offset=42, leader_epoch=epoch, metadata="m", commit_ms=9, expire_ms=expire_ms
    )
    assert read(OFFSET_KEY, bytes.fromhex(value)) == OffsetRecord(OFFSET.key, committed)


@pytest.mark.parametrize(
    "value",
    [
        "0000 0001 70 00000004 0001 72 0001 6d 00000001"
        "0001 6d 0001 63 0001 68 00002710 00000000 00000001 02",
        "0001 0001 70 00000004 0001 72 0001 6d 00000001"
        "0001 6d 0001 63 0001 68 00002710 00002710 00000000 00000001 02",
        "0002 0001 70 00000004 0001 72 0001 6d ffffffffffffffff 00000001"
        "0001 6d 0001 63 0001 68 00002710 00002710 00000000 00000001 02",
        "0004 02 70 00000004 02 72 02 6d ffffffffffffffff 02"
        "02 6d 00 02 63 02 68 00002710 00002710 01 02 02 00 00",
    ],
)
def test_groups_of_every_version_are_read(value: str) -> None:
    record = read(GROUP_KEY, bytes.fromhex(value))
    assert isinstance(record, GroupRecord)
    assert record.snapshot is not None
    (member,) = record.snapshot.members
    assert (record.snapshot.generation, record.snapshot.protocol) == (4, "r")
    assert (member.member_id, member.assignment) == ("m", b"\x02")
    assert member.rebalance_timeout_ms == member.session_timeout_ms == 10_000


def test_keys_of_other_kinds_are_passed_over() -> None:
    assert read(b"\x00\x04\x00\x01g", b"\x00\x00") is None


def test_a_value_of_a_later_version_is_refused() -> None:
    with pytest.raises(DecodeError):
        read(OFFSET_KEY, b"\x00\x05" + OFFSET_VALUE[2:])


@given(
    st.binary(max_size=80),
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x00\x01", b"\x00\x02"]),
)
def test_garbage_raises_decode_error_and_nothing_else(
    key: bytes, value: bytes, start: bytes
) -> None:
    for data in (value, b"\x00\x03" + value, b"\x00\x04" + value):
        try:
            read(start + key, data)
            read(OFFSET_KEY, data)
            read(GROUP_KEY, data)
        except DecodeError:
            pass


texts = st.text(max_size=12)
members = st.builds(
    MemberSnapshot,
    member_id=texts,
    instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)


@given(texts, st.lists(members, max_size=4), st.none() | texts)
def test_groups_come_back_as_they_were_written(
    name: str, crew: list[MemberSnapshot], protocol: str | None
) -> None:
    snapshot = GroupSnapshot(
        group_id=name,
        protocol_type=name,
        generation=1,
        protocol=protocol,
        leader=protocol,
        members=tuple(crew),
    )
    assert read(*write(GroupRecord(name, snapshot))) == GroupRecord(name, snapshot)

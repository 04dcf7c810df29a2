"""Keys and values of the cluster's store."""

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cluster import state
from chordmq.cluster.metastore.store import Entry
from chordmq.cluster.state import PartitionState


@given(st.text(min_size=1))
def test_any_name_comes_back_from_its_key(name: str) -> None:
    key = state.topic_key(name.encode("utf-8", "replace").decode())

    assert state.name_of(key) == name.encode("utf-8", "replace").decode()
    assert key.count("/") == 1


def test_a_partition_comes_back_from_its_key() -> None:
    topic = uuid.uuid4().bytes

    key = state.partition_key(topic, 17)

    assert state.partition_of(key) == (topic, 17)
    assert key.startswith(state.partitions_key(topic))


def test_a_partition_state_comes_back_from_its_json() -> None:
    held = PartitionState(replicas=(1, 2, 3), leader=2, leader_epoch=7, isr=(2, 3), elr=(1,))

    entry = Entry("parts/00/0", state.encode(held), revision=5, created=4)

    assert state.decode(entry, PartitionState) == held


def test_a_value_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    entry = Entry("k", b'{"v":2,"replicas":[1],"mood":"good"}', revision=1, created=1)

    assert state.decode(entry, PartitionState) == PartitionState(v=2, replicas=(1,))


def test_a_value_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        state.decode(Entry("k", b"\xff", 1, 1), PartitionState)

"""Tests of the bytes that consumers exchange through their group."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.codecs.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from chordmq.codecs.kafka.schema import decode, encode
from tests.codecs.kafka.arbitrary import messages

CLASSES = [ConsumerProtocolSubscription, ConsumerProtocolAssignment]


def test_a_subscription_grows_at_its_end_from_version_to_version() -> None:
    """C1: what Java's consumer sends when it joins a group."""
    owned = ConsumerProtocolSubscriptionTopicPartition("t", [5])
    subscription = ConsumerProtocolSubscription(["t"], None, [owned], 9, "r")
    wire = "00000001 0001 74 ffffffff".replace(" ", "")
    assert encode(subscription, 0).hex() == wire
    wire += "00000001 0001 74 00000001 00000005".replace(" ", "")
    assert encode(subscription, 1).hex() == wire
    assert encode(subscription, 2).hex() == wire + "00000009"
    assert encode(subscription, 3).hex() == wire + "00000009" + "000172"


def test_an_assignment_lists_partitions_by_topic() -> None:
    assigned = [ConsumerProtocolAssignmentTopicPartition("t", [0, 2])]
    wire = encode(ConsumerProtocolAssignment(assigned), 0)
    assert wire.hex() == "00000001000174000000020000000000000002ffffffff"


@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_messages_come_back_and_newer_fields_are_let_be(
    cls: type[Any], data: st.DataObject
) -> None:
    """C1: a member with a newer client is read in the newest version that we know."""
    version = data.draw(st.sampled_from(cls.versions))
    message = data.draw(messages(cls, version))
    assert decode(cls, version, encode(message, version) + b"newer") == message

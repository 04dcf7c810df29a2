"""Kafka's ConsumerProtocol messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ConsumerProtocolAssignmentTopicPartition(Struct):
    """A part of ConsumerProtocolAssignment."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class ConsumerProtocolAssignment(Struct):
    """ConsumerProtocolAssignment, versions 0-3."""

    versions: ClassVar[range] = range(4)
    flexible_since: ClassVar[int | None] = None

    assigned_partitions: Annotated[
        list[ConsumerProtocolAssignmentTopicPartition],
        Wire("[]ConsumerProtocolAssignmentTopicPartition"),
    ] = field(default_factory=list)
    user_data: Annotated[bytes | None, Wire("bytes", nullable="0+")] = None


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    """A part of ConsumerProtocolSubscription."""

    topic: Annotated[str, Wire("string", "1+")] = ""
    partitions: Annotated[list[int], Wire("[]int32", "1+")] = field(default_factory=list)


class ConsumerProtocolSubscription(Struct):
    """ConsumerProtocolSubscription, versions 0-3."""

    versions: ClassVar[range] = range(4)
    flexible_since: ClassVar[int | None] = None

    topics: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    user_data: Annotated[bytes | None, Wire("bytes", nullable="0+")] = None
    owned_partitions: Annotated[
        list[ConsumerProtocolSubscriptionTopicPartition],
        Wire("[]ConsumerProtocolSubscriptionTopicPartition", "1+", ignorable=True),
    ] = field(default_factory=list)
    generation_id: Annotated[int, Wire("int32", "2+", ignorable=True)] = -1
    rack_id: Annotated[str | None, Wire("string", "3+", nullable="3+", ignorable=True)] = None

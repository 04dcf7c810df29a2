"""ListOffsets takes the special timestamps that its version knows, and no others."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from chordmq.fronts.kafka.list_offsets import SPECIAL_SINCE
from tests.fronts.kafka.conftest import Ask

UNSUPPORTED_VERSION = 35


async def error_of(ask: Ask, timestamp: int, version: int) -> int:
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=timestamp)])
    response = await ask(ListOffsetsRequest(topics=[wanted]), version)
    return int(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", range(1, 12))
async def test_each_special_timestamp_is_known_from_its_version_on(
    broker: Broker, ask: Ask, version: int
) -> None:
    """C6: earliest, latest, max-timestamp and the tiered ones, as Kafka numbers them."""
    await broker.topics.create("t", 1)
    for timestamp, since in SPECIAL_SINCE.items():
        expected = UNSUPPORTED_VERSION if version < since else 0
        assert await error_of(ask, timestamp, version) == expected
    for unknown in (-7, -100, -(2**63)):
        assert await error_of(ask, unknown, version) == UNSUPPORTED_VERSION

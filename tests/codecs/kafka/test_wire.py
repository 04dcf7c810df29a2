"""Tests of how fields are described and looked up by version."""

import pytest

from chordmq.codecs.kafka.messages.fetch import FetchRequest
from chordmq.codecs.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from chordmq.codecs.kafka.wire import fields_at, size_min, within


@pytest.mark.parametrize(
    ("versions", "inside"),
    [("none", []), ("0+", [0, 1, 2, 3, 4]), ("2+", [2, 3, 4]), ("1-3", [1, 2, 3]), ("2", [2])],
)
def test_version_ranges_read_as_in_the_schemas(versions: str, inside: list[int]) -> None:
    assert [version for version in range(5) if within(version, versions)] == inside


def test_a_field_has_its_versions_nullability_and_tag() -> None:
    topics = fields_at(MetadataRequest, 0)[0]
    assert (topics.is_present, topics.is_nullable, topics.struct) == (
        True,
        False,
        MetadataRequestTopic,
    )
    assert fields_at(MetadataRequest, 1)[0].is_nullable
    replica_id, replica_state = fields_at(FetchRequest, 15)[1:3]
    assert (replica_id.is_present, replica_state.tag) == (False, 1)


def test_the_least_size_counts_what_every_element_has() -> None:
    assert size_min("int64", None, 0, is_flexible=False) == 8
    assert size_min("string", None, 0, is_flexible=False) == 2
    assert size_min("MetadataRequestTopic", MetadataRequestTopic, 8, is_flexible=False) == 2
    # topic id, name, tags
    assert size_min("MetadataRequestTopic", MetadataRequestTopic, 12, is_flexible=True) == 18

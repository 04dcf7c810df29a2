"""What a user can say to the data source, and what is refused."""

import pytest

from pyspark_chordmq.options import BadOption, read_options


def test_the_options_of_the_kafka_connector_are_understood() -> None:
    """P2: format() is the only word to change."""
    options = read_options(
        {
            "kafka.bootstrap.servers": "b:1",
            "subscribe": "a, b",
            "startingOffsets": '{"a": {"0": 5}}',
            "maxOffsetsPerTrigger": "100",
            "minPartitions": "7",
            "failOnDataLoss": "false",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_uncommitted",
        },
        streaming=True,
    )
    assert (options.bootstrap, options.topics, options.start) == ("b:1", ("a", "b"), {("a", 0): 5})
    assert (options.rows_per_trigger, options.tasks_min) == (100, 7)
    assert (options.fail_on_data_loss, options.with_headers) == (False, True)
    assert not options.read_committed


def test_a_table_starts_at_the_beginning_and_a_stream_at_the_end() -> None:
    assert read_options({}).start == "earliest"
    assert read_options({}, streaming=True).start == "latest"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "only one of"),
        ({"assign": "a"}, "assign wants JSON"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"startingOffsets": "first"}, "startingOffsets wants"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"maxOffsetsPerTrigger": "-1"}, "whole number above zero"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"kafka.isolation.level": "dirty"}, "cannot be 'dirty'"),
    ],
)
def test_an_option_without_meaning_is_refused_by_its_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        read_options(given)


def test_a_password_is_not_printed() -> None:
    """E13: Spark writes a query's options into its logs when it fails."""
    assert "hunter2" not in repr(read_options({"user": "u", "password": "hunter2"}))

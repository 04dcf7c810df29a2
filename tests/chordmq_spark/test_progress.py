"""How far a query is behind."""

from chordmq_spark.progress import behind


def test_lag_is_what_lies_between_two_positions() -> None:
    """P7: partitions that the query has not begun count in full."""
    assert behind({"t": {"0": 5}}, {"t": {"0": 9, "1": 3}}) == 7
    assert behind({"t": {"0": 9}}, {"t": {"0": 5}}) == 0
    assert behind({}, {}) == 0

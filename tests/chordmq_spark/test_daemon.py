"""The parent of Python workers."""

from importlib.util import find_spec

from chordmq_spark.daemon import USED


def test_everything_that_workers_use_is_there_to_be_imported() -> None:
    """P2: what is missing would be imported by each worker again, and nobody would notice."""
    assert [name for name in USED if find_spec(name) is None] == []

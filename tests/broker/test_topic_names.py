"""E2: the names of log topics, and which of them have a shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.topic_names import TOPIC_LENGTH_MAX, Shape, TopicNames, shapes_of

LEVELS = st.lists(st.sampled_from(["a", "b", "a-", "a0", "_", ""]), min_size=1, max_size=4)
NAMES = LEVELS.map(".".join) | st.sampled_from(["x" * TOPIC_LENGTH_MAX, "a." + "y" * 247])
PREFIXES = LEVELS.map(lambda levels: Shape(prefix=".".join(levels) + "."))
SUFFIXES = LEVELS.map(lambda levels: Shape(suffix="." + ".".join(levels)))
ALONE = PREFIXES.map(lambda shape: shape._replace(is_alone=True))
SHAPES = PREFIXES | SUFFIXES | ALONE | st.sampled_from([Shape(), Shape(is_alone=True)])


@given(st.sets(NAMES), st.sets(NAMES), SHAPES)
def test_the_names_of_a_shape_are_those_that_it_fits(
    there: set[str], gone: set[str], shape: Shape
) -> None:
    """E2: as if each were looked at, whatever has come and gone."""
    names = TopicNames(there | gone)
    for name in gone:
        names.remove(name)
    found = list(names.matching(shape))
    assert sorted(found) == sorted(filter(shape.fits, there - gone))
    assert [name in names for name in found] == [True] * len(found)


@given(NAMES, SHAPES)
def test_a_name_has_the_shapes_that_fit_it(name: str, shape: Shape) -> None:
    """E2: so that filters can be looked up by a log topic, too."""
    if len(name) < TOPIC_LENGTH_MAX:
        assert (shape in shapes_of(name)) == shape.fits(name)


@pytest.mark.parametrize(("name", "twin"), [("a.b", "a_b"), ("a_b", "a_b"), ("a.c", None)])
def test_names_that_differ_only_by_dots_and_underscores_are_twins(
    name: str, twin: str | None
) -> None:
    """Kafka's rule: metrics could not tell them apart."""
    names = TopicNames(["a_b"])
    assert names.twin_of(name) == twin
    names.remove("a_b")
    assert names.twin_of(name) is None

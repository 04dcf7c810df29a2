"""What all filters together reach."""

import pytest

from chordmq.broker.names import Names, Rule
from chordmq.fronts.mqtt.reaches import Reaches


def test_a_log_topic_is_reached_until_the_last_filter_for_it_is_gone() -> None:
    reaches = Reaches()
    plain, deeper, open_ = map(Names().reach, ("a/b/c", "a/b/#", "+/b"))
    assert plain == deeper, "filters of the same log topics are one"
    for reach in (plain, deeper, open_):
        reaches.add(reach)
    assert [reaches.covers(topic) for topic in ("a.b", "z.b", "a.c")] == [True, True, False]
    reaches.remove(open_)
    assert open_ not in reaches
    assert not reaches.covers("z.b")
    reaches.remove(plain)
    assert reaches.covers("a.b")
    reaches.remove(deeper)
    assert not reaches.covers("a.b")
    assert plain not in reaches


def test_filters_that_share_a_log_topic_by_a_rule_keep_it_for_each_other() -> None:
    names = Names([Rule("a/#", "ruled")])
    reaches = Reaches()
    first, second = names.reach("a/b"), names.reach("a/c")
    for reach in (first, second):
        reaches.add(reach)
    reaches.remove(first)
    assert [reaches.covers(topic) for topic in ("ruled", "a.b", "a.c")] == [True, False, True]


def test_a_filter_that_goes_before_it_is_noted_keeps_nobody_from_being_followed() -> None:
    reaches = Reaches()
    reach = Names().reach("a/b")
    reaches.remove(reach)
    assert reach not in reaches
    reaches.add(reach)
    assert reaches.covers("a.b")
    reaches.remove(reach)
    assert not reaches.covers("a.b")


@pytest.mark.parametrize("wanted", ["#", "+", "a/#", "a/+/c", "+/b/#", "+/+", "a.b/#", "+/b.c"])
def test_what_filters_reach_together_is_what_one_of_them_reaches(wanted: str) -> None:
    reaches = Reaches()
    reach, other = Names().reach(wanted), Names().reach("elsewhere/+")
    for one in (reach, other):
        reaches.add(one)
    topics = ["a", "a.b", "a.b.c", "b", "b.c", "z.b", "a.", ".b", "x" * 249, "elsewhere.x"]
    for topic in topics:
        assert reaches.covers(topic) == (reach.covers(topic) or other.covers(topic)), topic
    reaches.remove(reach)
    reaches.remove(other)
    assert not any(map(reaches.covers, topics))

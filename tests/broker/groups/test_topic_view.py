"""Topics at one moment: by name, by pattern, and a digest of them."""

from chordmq.broker.groups.topic_view import TopicFacts, TopicView

A = TopicFacts("a", b"a" * 16, 2)
AB = TopicFacts("ab", b"b" * 16, 3)
OWN = TopicFacts("__consumer_offsets", b"c" * 16, 16, is_internal=True)


def test_patterns_find_topics_but_not_the_brokers_own() -> None:
    view = TopicView([A, AB, OWN])
    assert view.matching("a.*") == frozenset({"a", "ab"})
    assert view.matching(".*") == frozenset({"a", "ab"})
    assert view.by_name["__consumer_offsets"] is OWN
    assert view.by_id[AB.id] is AB


def test_a_digest_changes_with_the_topics_it_is_of() -> None:
    names = ["a", "ab", "unknown"]
    digest = TopicView([A, AB, OWN]).digest(names)
    assert TopicView([AB, A]).digest(reversed(names)) == digest
    assert TopicView([A]).digest(names) != digest
    assert TopicView([A._replace(partitions=3), AB]).digest(names) != digest
    assert TopicView([A._replace(id=b"x" * 16), AB]).digest(names) != digest
    assert -(2**63) <= digest < 2**63

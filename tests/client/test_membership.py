"""What members of a group tell each other has the bytes of Kafka's protocol."""

from chordmq.client.membership import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)


def test_a_subscription_has_the_bytes_of_kafkas_consumer_protocol() -> None:
    written = write_subscription(["ab", "c"])
    assert written == (
        b"\x00\x01"  # version
        b"\x00\x00\x00\x02\x00\x02ab\x00\x01c"  # topics
        b"\xff\xff\xff\xff"  # no user data
        b"\x00\x00\x00\x00"  # owns nothing
    )
    assert read_subscription(written) == ["ab", "c"]


def test_an_assignment_has_the_bytes_of_kafkas_consumer_protocol() -> None:
    pairs = [("a", 1), ("a", 0), ("b", 2)]
    written = write_assignment(pairs)
    assert written == (
        b"\x00\x00"  # version
        b"\x00\x00\x00\x02"
        b"\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
        b"\x00\x01b\x00\x00\x00\x01\x00\x00\x00\x02"
        b"\xff\xff\xff\xff"  # no user data
    )
    assert read_assignment(written) == sorted(pairs)


def test_a_member_without_partitions_may_get_no_bytes_at_all() -> None:
    assert read_assignment(b"") == []


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\x00\x09" + write_subscription(["t"])[2:] + b"\x00\x00\x00\x05" + b"\xff\xff"
    assert read_subscription(newer) == ["t"]

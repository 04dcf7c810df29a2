"""Publisher confirms: in order, joined, and nothing confirmed that is not safe."""

from pamqp import commands, frame

from chordmq.fronts.amqp.confirms import Confirms


def read(data: bytes) -> list[tuple[str, int, bool]]:
    """Return confirmations as (kind, number, multiple)."""
    found = []
    while data:
        size, channel, method = frame.unmarshal(data)
        assert channel == 3
        assert isinstance(method, commands.Basic.Ack | commands.Basic.Nack)
        kind = "ack" if isinstance(method, commands.Basic.Ack) else "nack"
        found.append((kind, int(method.delivery_tag or 0), bool(method.multiple)))
        data = data[size:]
    return found


def test_all_of_a_read_are_confirmed_at_once_when_the_last_part_is_safe() -> None:
    confirms = Confirms(3)
    group, number = confirms.next(10)
    assert number == 10
    group.parts += 2  # in two partitions
    assert confirms.end_read() == b""
    assert confirms.done(group) == b""
    assert confirms.is_open
    assert read(confirms.done(group)) == [("ack", 10, True)]
    assert not confirms.is_open


def test_a_later_read_that_is_safe_sooner_waits_for_the_earlier_one() -> None:
    confirms = Confirms(3)
    first, _ = confirms.next()
    first.parts += 1
    confirms.end_read()
    second, _ = confirms.next(4)
    second.parts += 1
    confirms.end_read()
    assert confirms.done(second) == b""
    assert read(confirms.done(first)) == [("ack", 5, True)]


def test_what_failed_is_told_by_number_and_the_rest_is_confirmed() -> None:
    confirms = Confirms(3)
    group, last = confirms.next(4)
    group.parts += 1
    confirms.end_read()
    group.failed += [2, 3]
    assert read(confirms.done(group)) == [
        ("nack", 2, False),
        ("nack", 3, False),
        ("ack", last, True),
    ]


def test_nothing_is_confirmed_where_all_failed() -> None:
    confirms = Confirms(3)
    group, _ = confirms.next(2)
    group.failed += [1, 2]
    assert read(confirms.end_read()) == [("nack", 1, False), ("nack", 2, False)]


def test_what_goes_nowhere_is_confirmed_at_the_end_of_the_read() -> None:
    confirms = Confirms(3)
    confirms.next(3)
    assert read(confirms.end_read()) == [("ack", 3, True)]
    assert confirms.end_read() == b""

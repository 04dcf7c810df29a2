"""Keys go where Java's producer sends them."""

import random

import pytest

from chordmq.client.partitioner import StickyChoice, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_kafkas_own_test(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


def test_a_key_goes_where_the_java_client_would_send_it() -> None:
    """Records of one key stay in one partition, whichever client wrote them."""
    from kafka.partitioner.default import murmur2 as peer

    for number in range(500):
        key = f"device-{number}".encode() * (number % 5 + 1)
        assert partition_for_key(key, 12) == (peer(key) & 0x7FFFFFFF) % 12


def test_records_without_a_key_stay_with_a_partition_until_its_batch_is_closed() -> None:
    sticky = StickyChoice(random.Random(1))
    first = sticky.choose("t", range(50))
    assert {sticky.choose("t", range(50)) for _ in range(20)} == {first}
    sticky.move_on("t", first + 1)
    assert sticky.choose("t", range(50)) == first
    chosen = set()
    for _ in range(20):
        sticky.move_on("t", sticky.choose("t", range(50)))
        chosen.add(sticky.choose("t", range(50)))
    assert len(chosen) > 5

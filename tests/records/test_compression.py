"""Tests of the compressions and of the limit on what comes out of them."""

import gzip
import os
import struct

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch, UnsupportedCompression
from chordmq.records.compression import Compression, compress, decompress

EVERY = list(Compression)
REAL = EVERY[1:]
TEXT = b'{"device": "d-17", "temperature": 21.5}' * 2000
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200) | st.builds(lambda n: os.urandom(n), st.integers(0, 90_000)))
def test_data_comes_back(kind: Compression, data: bytes) -> None:
    """C5: what we compress is what comes out."""
    assert decompress(kind, compress(kind, data)) == data


@pytest.mark.parametrize("kind", REAL, ids=lambda kind: kind.name)
def test_compression_makes_text_smaller(kind: Compression) -> None:
    assert len(compress(kind, TEXT)) < len(TEXT) / 8


@pytest.mark.parametrize("kind", REAL, ids=lambda kind: kind.name)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_taken(kind: Compression, buffer: type) -> None:
    packed = compress(kind, buffer(TEXT))
    assert decompress(kind, buffer(packed)) == TEXT


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        (Compression.GZIP, [-1, 1, 6, 9]),
        (Compression.LZ4, [1, 9, 12, 17]),
        (Compression.ZSTD, [-131072, -1, 3, 22]),
    ],
)
def test_every_level_that_kafka_allows_works(kind: Compression, levels: list[int]) -> None:
    """C5: `compression.gzip.level` and its siblings."""
    for level in levels:
        assert decompress(kind, compress(kind, TEXT, level)) == TEXT


@pytest.mark.parametrize("kind", REAL, ids=lambda kind: kind.name)
def test_a_bomb_stops_at_the_limit(kind: Compression) -> None:
    """C5: a small batch that would fill the memory is refused."""
    bomb = compress(kind, bytes(8_000_000))
    assert len(bomb) < 500_000
    with pytest.raises(CorruptBatch):
        decompress(kind, bomb, size_max=1_000_000)
    assert len(decompress(kind, bomb, size_max=8_000_000)) == 8_000_000


def test_a_snappy_block_that_claims_gigabytes_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="limit"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20))


def test_many_snappy_blocks_share_one_limit() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(1000)))
    framed = XERIAL + (struct.pack(">i", len(block)) + block) * 3
    assert decompress(Compression.SNAPPY, framed, size_max=3000) == bytes(3000)
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, framed, size_max=2999)


def test_snappy_is_read_with_and_without_java_framing() -> None:
    """C5: Java frames snappy in blocks, librdkafka sends one bare block."""
    framed = bytes(compress(Compression.SNAPPY, TEXT))
    assert framed.startswith(XERIAL)
    assert decompress(Compression.SNAPPY, framed) == TEXT
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


@pytest.mark.parametrize("size", [-1, 1000])
def test_a_snappy_block_cut_off_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatch, match="cut off"):
        decompress(Compression.SNAPPY, XERIAL + struct.pack(">i", size) + b"abc")
    with pytest.raises(CorruptBatch, match="cut off"):
        decompress(Compression.SNAPPY, XERIAL + b"\0\0")


@pytest.mark.parametrize(
    "options",
    [{}, {"block_linked": False}, {"content_checksum": True}, {"block_checksum": True}],
)
def test_lz4_frames_of_other_writers_are_read(options: dict[str, bool]) -> None:
    assert decompress(Compression.LZ4, lz4.frame.compress(TEXT, **options)) == TEXT


def test_our_lz4_blocks_are_independent_as_java_needs_them() -> None:
    """C5: Java refuses frames whose blocks refer to each other."""
    frame = bytes(compress(Compression.LZ4, TEXT))
    assert lz4.frame.get_frame_info(frame)["block_linked"] is False
    assert lz4.frame.decompress(frame) == TEXT


def test_gzip_of_several_members_is_read() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


@pytest.mark.parametrize("kind", REAL, ids=lambda kind: kind.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_garbage_raises_corrupt_batch_and_nothing_else(
    kind: Compression, data: st.DataObject
) -> None:
    packed = bytearray(compress(kind, TEXT[:500]))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place : place + data.draw(st.integers(1, 9))] = data.draw(st.binary(max_size=9))
    try:
        decompress(kind, packed, size_max=100_000)
    except CorruptBatch:
        pass


@pytest.mark.parametrize("kind", [5, 6, 7])
def test_unknown_compressions_are_refused(kind: int) -> None:
    with pytest.raises(UnsupportedCompression):
        decompress(kind, b"")

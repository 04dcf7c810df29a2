"""The four compressions of a record batch, with a limit on what comes out."""

from enum import IntEnum

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""How large a batch may become by default; a compression bomb stops here."""

Buffer = memoryview | bytes | bytearray


class Compression(IntEnum):
    """How a batch's records are compressed, numbered as in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(kind: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """Return the data compressed, in the form that every Kafka client reads."""
    if kind == Compression.NONE:
        return data
    from chordmq.records import compressors

    return compressors.compress(kind, data, level)


def decompress(kind: int, data: Buffer, size_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Return the data decompressed; CorruptBatch if it is damaged or grows beyond `size_max`."""
    if kind == Compression.NONE:
        return data
    from chordmq.records import compressors

    return compressors.decompress(kind, data, size_max)

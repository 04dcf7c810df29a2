"""The compressions of a record batch, as their library does them.

It is loaded with the first batch that is compressed: it takes some memory.
"""

import struct
import zlib
from collections.abc import Callable

import cramjam

from chordmq.errors import CorruptBatch, UnsupportedCompression
from chordmq.records.compression import Buffer, Compression


def compress(kind: Compression, data: Buffer, level: int | None) -> Buffer:
    """Return the data compressed, in the form that every Kafka client reads."""
    match kind:
        case Compression.GZIP:
            return zlib.compress(data, -1 if level is None else level, wbits=_GZIP_WINDOW)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            # Java reads only frames whose blocks do not refer to each other.
            frame = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
            frame.compress(bytes(data))
            return bytes(frame.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))
    raise UnsupportedCompression(f"compression {kind}")


def decompress(kind: int, data: Buffer, size_max: int) -> Buffer:
    """Return the data decompressed; CorruptBatch if it is damaged or grows beyond `size_max`."""
    match kind:
        case Compression.GZIP:
            return _grown(cramjam.gzip.decompress_into, data, size_max)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), size_max)
        case Compression.LZ4:
            return _grown(cramjam.lz4.decompress_into, data, size_max)
        case Compression.ZSTD:
            return _grown(cramjam.zstd.decompress_into, data, size_max)
    raise UnsupportedCompression(f"compression {kind}")


_GZIP_WINDOW = 31  # zlib's window of 15 bits, plus 16 for a gzip header

_OUTPUT_BYTES_MIN = 64 * 1024
_GROWTH = 8
_OUTPUT_FULL = "failed to write whole buffer"  # what cramjam says, whatever the format

DecompressInto = Callable[[Buffer, bytearray], int]


def _grown(decompress_into: DecompressInto, data: Buffer, size_max: int) -> memoryview:
    """Decompress into a buffer that grows with each try, since formats may hide their size."""
    size = max(_OUTPUT_BYTES_MIN, len(data) * _GROWTH)
    while True:
        size = min(size, size_max)
        out = bytearray(size)
        try:
            return memoryview(out)[: decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            if size == size_max or _OUTPUT_FULL not in str(error):
                raise CorruptBatch(f"decompression failed: {error}") from error
        size *= _GROWTH


# Snappy has no frame of its own. Java writes the one of the xerial library: this header, then
# blocks with their size in four bytes; other clients write a single bare block.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_SIZE.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, size_max: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_block(data, size_max)
    parts: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _BLOCK_SIZE.size:
            raise CorruptBatch("a snappy block is cut off")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(data) - position:
            raise CorruptBatch("a snappy block is cut off")
        parts.append(_decompress_block(data[position : position + size], size_max))
        size_max -= len(parts[-1])
        position += size
    return b"".join(parts)


def _decompress_block(data: memoryview, size_max: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(data) > size_max:
            raise CorruptBatch("decompression exceeds the limit")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"decompression failed: {error}") from error

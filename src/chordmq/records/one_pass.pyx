# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Batches turned into the buffers of Arrow arrays in one pass over their bytes.

Every number is read below the end of its record, and every record lies below the end of its batch;
what does not fit is CorruptBatch, so that nothing outside of the buffer is ever read or written.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from chordmq.errors import CorruptBatch

cdef int RECORD_BYTES_MIN = 7
cdef int64_t ARROW_BYTES_MAX = 0x7FFFFFFF

cdef enum Fault:
    NONE
    NUMBER_TOO_LONG
    NUMBER_CUT_OFF
    SIZE_BELOW_ZERO
    RECORD_TOO_LONG
    PART_TOO_LONG
    BYTES_LEFT_IN_RECORD
    BYTES_LEFT_IN_BATCH

WHY = {
    NUMBER_TOO_LONG: "a number in a record is longer than ten bytes",
    NUMBER_CUT_OFF: "a record ends within a number",
    SIZE_BELOW_ZERO: "a key or value has a size below zero",
    RECORD_TOO_LONG: "a record's size does not fit its batch",
    PART_TOO_LONG: "a key or value is longer than its record",
    BYTES_LEFT_IN_RECORD: "a record's size does not match its fields",
    BYTES_LEFT_IN_BATCH: "bytes follow the last record of the batch",
}

cdef struct Cursor:
    const uint8_t *at
    const uint8_t *stop
    Fault fault

cdef struct Binary:
    # The buffers of one array of bytes; without edges nobody wants it.
    int32_t *edges
    uint8_t *data
    uint8_t *valid
    int32_t size
    bint has_nulls

cdef struct Batch:
    # A row of the table that `decode` takes.
    int64_t begin
    int64_t end
    int64_t records
    int64_t base_offset
    int64_t time_ms
    int64_t is_append_time

cdef struct Rows:
    int64_t start
    int64_t stop
    Py_ssize_t count
    int64_t *offsets
    int64_t *times_us
    int32_t *time_kinds
    Binary keys
    Binary values
    int64_t *headers


cdef inline int64_t varint(Cursor *here) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while here.at < here.stop:
        byte = here.at[0]
        here.at += 1
        if shift == 63 and byte > 1:
            here.fault = NUMBER_TOO_LONG
            return 0
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
        shift += 7
    here.fault = NUMBER_CUT_OFF
    return 0


cdef inline int64_t part(Cursor *here) noexcept nogil:
    """Go past a key or value, and return its size; -1 is null."""
    cdef int64_t size = varint(here)
    if here.fault != NONE:
        return 0
    if size < -1:
        here.fault = SIZE_BELOW_ZERO
    elif size > here.stop - here.at:
        here.fault = PART_TOO_LONG
    elif size > 0:
        here.at += size
    return size


cdef inline void keep(Binary *array, Py_ssize_t row, const uint8_t *after, int64_t size) noexcept nogil:
    """Copy the bytes that lie before a place to the end of an array."""
    if array.edges == NULL:
        return
    if size < 0:
        array.has_nulls = True
    else:
        array.valid[row >> 3] |= <uint8_t>(1 << (row & 7))
        if size:
            memcpy(array.data + array.size, after - size, <size_t>size)
            array.size += <int32_t>size
    array.edges[row + 1] = array.size


cdef Fault record(Rows *rows, const Batch *batch, Cursor *here, const uint8_t *origin) noexcept nogil:
    """Read one record, and keep it if its offset is wanted."""
    cdef int64_t time, offset, key_size, value_size
    cdef const uint8_t *key_stop
    cdef const uint8_t *value_stop
    here.at += 1  # attributes, which have no meaning yet
    time = varint(here)
    offset = <int64_t>(<uint64_t>batch.base_offset + <uint64_t>varint(here))
    key_size = part(here)
    if here.fault != NONE:
        return here.fault
    key_stop = here.at
    value_size = part(here)
    if here.fault != NONE:
        return here.fault
    value_stop = here.at
    if varint(here) == 0 and here.fault == NONE and here.at != here.stop:
        here.fault = BYTES_LEFT_IN_RECORD
    if here.fault != NONE or not rows.start <= offset < rows.stop:
        return here.fault
    rows.offsets[rows.count] = offset
    if batch.is_append_time:
        time = 0
    rows.times_us[rows.count] = <int64_t>((<uint64_t>batch.time_ms + <uint64_t>time) * 1000)
    rows.time_kinds[rows.count] = <int32_t>batch.is_append_time
    keep(&rows.keys, rows.count, key_stop, key_size)
    keep(&rows.values, rows.count, value_stop, value_size)
    if rows.headers != NULL:
        rows.headers[2 * rows.count] = value_stop - origin
        rows.headers[2 * rows.count + 1] = here.stop - origin
    rows.count += 1
    return NONE


cdef Fault records_of(Rows *rows, const Batch *batch, const uint8_t *origin) noexcept nogil:
    cdef Cursor whole = Cursor(origin + batch.begin, origin + batch.end, NONE)
    cdef Cursor inner
    cdef int64_t size
    cdef Fault fault
    for _ in range(batch.records):
        size = varint(&whole)
        if whole.fault != NONE:
            return whole.fault
        if size < RECORD_BYTES_MIN - 1 or size > whole.stop - whole.at:
            return RECORD_TOO_LONG
        inner = Cursor(whole.at, whole.at + size, NONE)
        fault = record(rows, batch, &inner, origin)
        if fault != NONE:
            return fault
        whole.at += size
    return BYTES_LEFT_IN_BATCH if whole.at != whole.stop else NONE


cdef Fault read_all(Rows *rows, const int64_t[:, ::1] batches, const uint8_t *origin) noexcept nogil:
    cdef Fault fault
    cdef Py_ssize_t index
    for index in range(batches.shape[0]):
        fault = records_of(rows, <const Batch *>&batches[index, 0], origin)
        if fault != NONE:
            return fault
    return NONE


cdef class Bytes:
    """The buffers of one array of bytes, with room for the most that can come."""

    cdef object edges, data, valid
    cdef Binary target

    def __init__(self, Py_ssize_t rows, Py_ssize_t size):
        cdef int32_t[::1] edges
        cdef uint8_t[::1] data, valid
        self.edges = np.empty(rows + 1, dtype=np.int32)
        self.data = np.empty(size + 1, dtype=np.uint8)
        self.valid = np.zeros(rows // 8 + 1, dtype=np.uint8)
        edges, data, valid = self.edges, self.data, self.valid
        edges[0] = 0
        self.target = Binary(&edges[0], &data[0], &valid[0], 0, False)

    cdef found(self, Binary *filled, Py_ssize_t rows):
        valid = self.valid if filled.has_nulls else None
        return valid, self.edges[: rows + 1], self.data[: filled.size]


def decode(const uint8_t[::1] data, const int64_t[:, ::1] batches, names, int64_t start, int64_t stop):
    """Return the buffers of the records with start <= offset < stop; see the stub for their kinds."""
    cdef int64_t room = 0, records = 0
    cdef Py_ssize_t index
    if batches.shape[0] and batches.shape[1] * sizeof(int64_t) != sizeof(Batch):
        raise ValueError(f"a batch has {sizeof(Batch) // sizeof(int64_t)} numbers")
    for index in range(batches.shape[0]):
        begin, end, count = batches[index, 0], batches[index, 1], batches[index, 2]
        if not 0 <= begin <= end <= data.shape[0]:
            raise ValueError(f"no batch lies between {begin} and {end} of {data.shape[0]} bytes")
        if not 0 <= count * RECORD_BYTES_MIN <= end - begin:
            raise CorruptBatch(f"{count} records cannot be in {end - begin} bytes")
        room += end - begin
        records += count
    if room > ARROW_BYTES_MAX:
        raise ValueError(f"{room} bytes are more than one array can hold")
    cdef Rows rows
    rows.start, rows.stop, rows.count = start, stop, 0
    cdef Bytes keys = Bytes(records, room) if "key" in names else None
    cdef Bytes values = Bytes(records, room) if "value" in names else None
    rows.keys.edges = rows.values.edges = NULL
    if keys is not None:
        rows.keys = keys.target
    if values is not None:
        rows.values = values.target
    offsets = np.empty(records + 1, dtype=np.int64)
    times = np.empty(records + 1, dtype=np.int64)
    kinds = np.empty(records + 1, dtype=np.int32)
    headers = np.empty((records + 1, 2), dtype=np.int64) if "headers" in names else None
    cdef int64_t[::1] offsets_seen = offsets, times_seen = times
    cdef int32_t[::1] kinds_seen = kinds
    cdef int64_t[:, ::1] headers_seen
    rows.offsets, rows.times_us, rows.time_kinds = &offsets_seen[0], &times_seen[0], &kinds_seen[0]
    rows.headers = NULL
    if headers is not None:
        headers_seen = headers
        rows.headers = &headers_seen[0, 0]
    cdef Fault fault = NONE
    if room:
        with nogil:
            fault = read_all(&rows, batches, &data[0])
    if fault != NONE:
        raise CorruptBatch(WHY[fault])
    return (
        offsets[: rows.count],
        times[: rows.count],
        kinds[: rows.count],
        None if keys is None else keys.found(&rows.keys, rows.count),
        None if values is None else values.found(&rows.values, rows.count),
        None if headers is None else headers[: rows.count],
    )
